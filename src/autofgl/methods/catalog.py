"""The methods by name: what each is, and where it lives. Nothing here needs torch."""

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofgl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from autofgl.runtime.method import Method


@dataclass(frozen=True)
class MethodEntry:
    """A method, without importing it.

    Attributes:
        home: ``module:class`` of the method.
        settings: ``module:class`` of its settings, which import without torch.
        summary: What it does, in a line.
        sharing: How clients learn together.
        search: Who chooses what is trained.
        secure: The secure mode of a run that names none.
    """

    home: str
    settings: str
    summary: str
    sharing: str
    search: str = "–"
    secure: str = "none"


_ROOM = "autofgl.methods."

METHODS: dict[str, MethodEntry] = {
    "centralized": MethodEntry(
        _ROOM + "baselines:Centralized",
        "autofgl.runtime.settings:AloneSettings",
        "one network on the pooled graph; not private",
        "pooled",
    ),
    "separate": MethodEntry(
        _ROOM + "baselines:Separate",
        "autofgl.runtime.settings:AloneSettings",
        "every client trains alone, nothing is exchanged",
        "alone",
    ),
    "fedavg": MethodEntry(
        _ROOM + "baselines:FedAvg",
        "autofgl.runtime.settings:FederatedSettings",
        "federated averaging of parameters or gradients",
        "common",
    ),
    "fl-agcns": MethodEntry(
        _ROOM + "fl_agcns.controller:FLAGCNS",
        _ROOM + "fl_agcns.settings:FLAGCNSSettings",
        "federated architecture search with a SuperNet and evolution",
        "common",
        "evolution in controller and clients",
    ),
    "fl-random": MethodEntry(
        _ROOM + "fl_agcns.rivals:FLRandom",
        _ROOM + "fl_agcns.settings:CandidateSettings",
        "federated architecture search at random, every network from scratch",
        "common",
        "random",
    ),
    "fl-rl": MethodEntry(
        _ROOM + "fl_agcns.rivals:FLRL",
        _ROOM + "fl_agcns.settings:RLSettings",
        "federated architecture search by Q-learning, as BlockQNN",
        "common",
        "Q-learning",
    ),
    "fl-darts": MethodEntry(
        _ROOM + "fl_agcns.darts:FLDarts",
        _ROOM + "fl_agcns.settings:DartsSettings",
        "federated architecture search by gradients (DARTS) in a SuperNet",
        "common",
        "gradients",
    ),
    "fedgraph": MethodEntry(
        _ROOM + "fedgraph.server:FedGraph",
        _ROOM + "fedgraph.settings:FedGraphSettings",
        "graph convolution across clients, with sampling",
        "across clients",
        "DDPG over sampling policies",
    ),
    "graphfl": MethodEntry(
        _ROOM + "graphfl.method:GraphFL",
        _ROOM + "graphfl.settings:GraphFLSettings",
        "clients meta-learn a network that adapts to few labels",
        "meta",
    ),
    "graphfl-ga": MethodEntry(
        _ROOM + "graphfl.method:GraphFLGA",
        _ROOM + "graphfl.settings:GraphFLGASettings",
        "graphfl with clients that configure themselves",
        "meta",
        "genetic algorithm in each client",
    ),
    "sfgnn": MethodEntry(
        _ROOM + "asfgnn.method:SFGNN",
        _ROOM + "asfgnn.settings:SFGNNSettings",
        "own message passing for each client, one discriminator for all",
        "own encoder, common head",
        secure="shares",
    ),
    "asfgnn": MethodEntry(
        _ROOM + "asfgnn.method:ASFGNN",
        _ROOM + "asfgnn.settings:ASFGNNSettings",
        "SFGNN with hyper-parameters tuned by Bayesian optimization",
        "own encoder, common head",
        "Bayesian optimization",
        secure="shares",
    ),
}


def find_method(name: str) -> "type[Method]":
    """The method of a name, of ``module:Class``, or of ``path/to/file.py:Class``.

    Raises:
        UserError: There is none; the message names the nearest ones.
    """
    from autofgl.runtime.method import Method

    if name in METHODS:
        found = _load(METHODS[name].home)
    elif ":" in name:
        found = _load(name)
    else:
        raise unknown_name("method", name, METHODS)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise UserError(f"'{name}' is not a method: derive it from autofgl.Method")
    return found


def settings_of(name: str) -> Any:
    """The settings of a method; those of our own need no torch.

    Raises:
        UserError: There is no such method.
    """
    if name in METHODS:
        return _load(METHODS[name].settings)
    return find_method(name).Settings


def default_secure(name: str) -> str:
    """The secure mode of a run that names none."""
    return METHODS[name].secure if name in METHODS else "none"


def name_of(method: "type[Method]") -> str:
    """The name by which :func:`find_method` finds a class again, in any process.

    Raises:
        UserError: It was defined where no other process can find it.
    """
    for name, entry in METHODS.items():
        if entry.home == f"{method.__module__}:{method.__qualname__}":
            return name
    module = sys.modules.get(method.__module__)
    file = getattr(module, "__file__", None)
    importable = method.__module__ != "__main__" and importlib.util.find_spec(method.__module__)
    if "<locals>" in method.__qualname__ or not (importable or file):
        raise UserError(
            f"{method.__qualname__} lives in no module: write it into a file of its own, so that "
            "other processes and a resumed run find it"
        )
    where = method.__module__ if importable else str(Path(str(file)).resolve())
    return f"{where}:{method.__qualname__}"


def _load(home: str) -> Any:
    """What a ``module:name`` or ``file.py:name`` stands for."""
    where, _, name = home.rpartition(":")
    try:
        module = (
            _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
        )
    except ImportError as error:
        raise UserError(f"method '{home}': {error}") from error
    if not hasattr(module, name):
        raise UserError(f"method '{home}': {where} has no '{name}'")
    return getattr(module, name)


def _from_file(path: Path) -> Any:
    """A file as a module, loaded once in a process."""
    name = f"autofgl_plugin_{path.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and Path(str(loaded.__file__)) == path.resolve():
        return loaded
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
