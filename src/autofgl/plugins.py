"""Code from outside the package: in a file, in a module, behind an entry point, or handed over.

A method, a network, a layer, a dataset or a tracker of one's own is named by
``path/to/file.py:Name`` or ``module:Name``, or by the name under which an installed package
registers it in the entry points ``autofgl.methods``, ``autofgl.models``, ``autofgl.datasets`` or
``autofgl.trackers``. Nothing is imported before its name is used, so that a broken plug-in hurts
nobody who does not name it. Nothing here needs torch.
"""

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import Any

from autofgl.errors import UserError, one_line

#: The entry points of what plug-ins may bring.
GROUPS = {
    "method": "autofgl.methods",
    "model": "autofgl.models",
    "dataset": "autofgl.datasets",
    "tracker": "autofgl.trackers",
}

#: Names of modules that were handed over as they are begin so: no other process finds them.
GIVEN = "given:"

#: What was handed over, by its kind and by the name that finds it again.
_GIVEN: dict[tuple[str, str], Any] = {}


def entry_points(kind: str) -> dict[str, importlib.metadata.EntryPoint]:
    """What installed packages bring of a kind, by name; nothing of it is imported."""
    if kind not in GROUPS:
        return {}
    return {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUPS[kind])}


def entry_summary(entry: importlib.metadata.EntryPoint) -> str:
    """A plug-in in a few words, without importing it."""
    package = entry.dist.name if entry.dist is not None else "an installed package"
    return f"plug-in of {package} ({entry.value})"


def is_known(kind: str, name: str) -> bool:
    """Whether a name may stand for something from outside, which may yet fail to load."""
    return ":" in name or (kind, name) in _GIVEN or name in entry_points(kind)


def check_named(kind: str, name: str) -> None:
    """Refuse a file without the name of something in it."""
    if name.endswith(".py"):
        raise UserError(f"{kind} '{name}' is a file: say what of it, as in {name}:Name")


def find(kind: str, name: str) -> Any:
    """What a name from outside stands for.

    Raises:
        UserError: It cannot be loaded, or nobody has it.
    """
    if (kind, name) in _GIVEN:
        return _GIVEN[kind, name]
    if name.startswith(GIVEN):
        raise UserError(
            f"{kind} '{name}' was handed over as a module in another process: hand it over again, "
            "as in autofgl.resume(folder, clients, model=module)"
        )
    if ":" in name:
        return _load(kind, name)
    entry = entry_points(kind).get(name)
    if entry is None:
        raise UserError(f"{kind} '{name}': no installed package has it")
    try:
        return entry.load()
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        raise UserError(one_line(f"{kind} '{name}': {entry_summary(entry)}: {_said(error)}")) from (
            error
        )


def hand_over(kind: str, name: str, thing: Any) -> str:
    """Have a name stand for something in this process; the name itself."""
    _GIVEN[kind, name] = thing
    return name


def absolute_name(name: str) -> str:
    """The name of something in a file with the file's whole path, which any process finds."""
    where, colon, own = name.rpartition(":")
    return f"{Path(where).resolve()}{colon}{own}" if where.endswith(".py") else name


def check_file(kind: str, name: str) -> None:
    """Refuse a name in a file that does not exist; nothing is imported."""
    where = name.rpartition(":")[0]
    if where.endswith(".py") and (kind, name) not in _GIVEN and not Path(where).is_file():
        raise UserError(f"{kind} '{name}': there is no file {where}")


def name_of(kind: str, thing: Any) -> str:
    """The name by which any process finds a class or function again; a UserError if none could."""
    text = f"{_home(thing)}:{thing.__qualname__}"
    return hand_over(kind, text, thing)


def _home(thing: Any) -> str:
    """The module of a class, or its file where a new process would not find the module."""
    package = thing.__module__.partition(".")[0]
    if thing.__qualname__.isidentifier():
        # The first entry is the folder of the script, which other processes do not look into.
        if importlib.machinery.PathFinder.find_spec(package, sys.path[1:]) is not None:
            return str(thing.__module__)
        file = getattr(sys.modules.get(thing.__module__), "__file__", None)
        if file:
            return str(Path(file).resolve())
    raise UserError(
        f"{thing.__qualname__} lives in no module: write it into a file of its own, so that "
        "other processes and a resumed run find it"
    )


def _load(kind: str, home: str) -> Any:
    """What a ``module:name`` or ``file.py:name`` stands for."""
    where, _, name = home.rpartition(":")
    try:
        module = (
            _from_file(kind, Path(where))
            if where.endswith(".py")
            else importlib.import_module(where)
        )
    except UserError:
        raise
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        raise UserError(one_line(f"{kind} '{home}': {_said(error)}", 500)) from error
    if not hasattr(module, name):
        raise UserError(f"{kind} '{home}': {where} has no '{name}'")
    return getattr(module, name)


def _from_file(kind: str, path: Path) -> Any:
    """A file as a module, loaded once in a process."""
    name = f"autofgl_plugin_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and Path(str(loaded.__file__)) == path.resolve():
        return loaded
    if not path.is_file():
        raise UserError(f"{kind} '{path.stem}': there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
