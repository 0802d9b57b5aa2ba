"""An application's own object, named `module:variable` or `file.py:variable`: its module is imported, as its operator would."""

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from ..errors import SourceError


def variable(module: str, path: str) -> Any:
    """The object at `path` (dots lead on) in a module, or in a file that ends in .py; raises SourceError."""
    try:
        found: Any = _of_file(Path(module)) if module.endswith(".py") else _of_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # the application's own code runs here, and may raise anything
        raise SourceError(
            f"{Path(module).name}:{path} cannot be imported: {error}",
            hint="run it in the application's folder and environment, and name module:variable",
        ) from error
    return found


def _of_module(name: str) -> Any:
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # an application stands where the operator does, as for `celery -A`
    return import_module(name)


def _of_file(path: Path) -> Any:
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no module")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
