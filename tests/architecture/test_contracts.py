"""Who may import whom and what, beyond the arrows between floors that import-linter holds."""

from pathlib import Path

import pytest

from support.tree import FLOORS, HOUSE, ROOT, Import, files, imports, module_file, module_name, refuse, shown

# Where each outside library may be imported; what is not listed is free.
HOMES = {
    "sqlalchemy": ("scheduler/store/", "scheduler/durable/", "scheduler/exchange/"),
    "alembic": ("scheduler/store/",),
    "psycopg": ("scheduler/store/",),
    "pymysql": ("scheduler/store/",),
    "sqlite3": ("scheduler/store/",),
    "redis": ("cluster/redis_lease", "cluster/redis_wake"),
    "click": ("cli/",),
    "starlette": ("cli/",),
    "uvicorn": ("cli/",),
    "jinja2": ("cli/",),
    "prometheus_client": ("cli/",),
    "apscheduler": ("scheduler/exchange/", "cluster/apscheduler_job", "cluster/apscheduler_store"),
    "pickle": (),
    "shelve": (),
    "marshal": (),
    "dill": (),
    "cloudpickle": (),
}
MIGRATIONS = "scheduler/store/migrations/"


def _house_imports() -> list[Import]:
    return [found for path in files(*HOUSE, ending=".py") for found in imports(path)]


@pytest.mark.parametrize("library", HOMES)
def test_a_library_is_imported_only_at_home(library: str) -> None:
    strays = [
        str(found)
        for found in _house_imports()
        if found.reaches(library) and not found.relative and not shown(found.path).startswith(HOMES[library])
    ]
    refuse(strays, f"{library} lives in {' and '.join(HOMES[library]) or 'no file at all'}")


def test_the_house_imports_itself_relatively() -> None:
    absolute = [
        str(found)
        for found in _house_imports()
        if not found.relative and (found.reaches("qsched") or found.name.split(".")[0] in FLOORS)
        # Alembic loads its files by path, without a package to be relative to.
        if not shown(found.path).startswith(MIGRATIONS)
    ]
    refuse(absolute, "inside the house: from ..triggers.trigger import TriggerDefinition")


def test_a_relative_import_names_the_file() -> None:
    """An import through a folder's face hides who uses what, and makes circles of harmless neighbours."""
    blurred = [
        f"{found}: that is a name in {shown(face)}"
        for found in _house_imports()
        if found.relative and found.path.parent != ROOT / "qsched"
        if (face := _face_of(found.name)) and found.name != "qsched.__version__"
    ]
    refuse(blurred, "name the file, not the folder")


def test_a_relative_import_finds_its_file() -> None:
    lost = [
        str(found)
        for found in _house_imports()
        if found.relative and not (module_file(found.name) or module_file(found.name.rpartition(".")[0]))
    ]
    refuse(lost, "one dot too few or too many?")


def test_nothing_imports_what_is_made_for_looking_on() -> None:
    """Metrics, dashboard and the testing tools stand beside the product, never under it."""
    onlookers = ("qsched.cli.metrics", "qsched.cli.dashboard", "qsched.scheduler.testing")
    users = [
        str(found)
        for found in _house_imports()
        for onlooker in onlookers
        if found.reaches(onlooker) and not module_name(found.path).startswith(onlooker)
        # A command may start the dashboard, if it loads it then.
        if not (shown(found.path).startswith("cli/") and onlooker.startswith("qsched.cli."))
    ]
    refuse(users, "nothing depends on them")


def test_no_test_sleeps() -> None:
    sleeping = [
        str(found)
        for path in files("tests", ending=".py")
        for found in imports(path)
        if found.name == "time.sleep"
    ] + [
        f"{shown(path)}:{number}"
        for path in files("tests", ending=".py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if f"time.{'sleep'}(" in line
    ]
    refuse(sleeping, "wait for what must come true: support.waiting.wait_until")


def _face_of(name: str) -> Path | None:
    """The `__init__.py` in which this imported name would be looked up, or None when it is a module's."""
    if module_file(name):
        return None
    owner = module_file(name.rpartition(".")[0])
    return owner if owner and owner.name == "__init__.py" else None
