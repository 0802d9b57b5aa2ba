"""Groups of a declaration: how many firings of the jobs that name a group may run at once, in the whole cluster."""

from collections.abc import Sequence

from .declaration_fields import Wrong, name_fault
from .declaration_files import Source
from .declaration_jobs import complain
from .yaml_tree import Path


def read_limits(files: Sequence[Source]) -> dict[str, int]:
    """{group: its limit} of all files; each group is limited once. What is wrong becomes problems."""
    limits: dict[str, int] = {}
    places: dict[str, Source] = {}
    for source in files:
        for name, said in source.said.get("groups", {}).items():
            path: Path = ("groups", name)
            if (fault := name_fault(name)) is not None:
                complain(source, path, fault._replace(on_key=True))
            elif name in places:
                message = f"the group `{name}` is also limited in {places[name].file}"
                complain(source, path, Wrong("E025", message, "keep one", on_key=True))
            elif "limit" not in said:
                hint = "write it as in {limit: 2}"
                complain(source, path, Wrong("E013", f"the group `{name}` has no limit", hint, on_key=True))
            else:
                places[name] = source
                limits[name] = said["limit"]
    return limits
