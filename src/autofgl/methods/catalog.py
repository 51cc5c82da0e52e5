"""The methods by name: what each is, and where it lives. Nothing here needs torch."""

import importlib
import importlib.machinery
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
    """A method, without importing it: its class, and its settings', which import without torch.

    ``secure`` is the mode of a run that names none; ``sums_securely`` if a mode could protect
    anything.
    """

    home: str
    settings: str
    summary: str
    sharing: str
    search: str
    secure: str
    sums_securely: bool


#: Where each method and its settings live: ``module:class``, those of a method below this package.
_HOMES = {
    "centralized": ("baselines:Centralized", "autofgl.runtime.settings:AloneSettings"),
    "separate": ("baselines:Separate", "autofgl.runtime.settings:AloneSettings"),
    "fedavg": ("baselines:FedAvg", "autofgl.runtime.settings:FederatedSettings"),
    "fl-agcns": ("fl_agcns.controller:FLAGCNS", "fl_agcns.settings:FLAGCNSSettings"),
    "fl-random": ("fl_agcns.rivals:FLRandom", "fl_agcns.settings:CandidateSettings"),
    "fl-rl": ("fl_agcns.rivals:FLRL", "fl_agcns.settings:RLSettings"),
    "fl-darts": ("fl_agcns.darts:FLDarts", "fl_agcns.settings:DartsSettings"),
    "fedgraph": ("fedgraph.server:FedGraph", "fedgraph.settings:FedGraphSettings"),
    "graphfl": ("graphfl.method:GraphFL", "graphfl.settings:GraphFLSettings"),
    "graphfl-ga": ("graphfl.method:GraphFLGA", "graphfl.settings:GraphFLGASettings"),
    "sfgnn": ("asfgnn.method:SFGNN", "asfgnn.settings:SFGNNSettings"),
    "asfgnn": ("asfgnn.method:ASFGNN", "asfgnn.settings:ASFGNNSettings"),
}
_SUMMARIES = {
    "centralized": "one network on the pooled graph; not private",
    "separate": "every client trains alone, nothing is exchanged",
    "fedavg": "federated averaging of parameters or gradients",
    "fl-agcns": "federated architecture search with a SuperNet and evolution",
    "fl-random": "federated architecture search at random, every network from scratch",
    "fl-rl": "federated architecture search by Q-learning, as BlockQNN",
    "fl-darts": "federated architecture search by gradients (DARTS) in a SuperNet",
    "fedgraph": "graph convolution across clients, with sampling",
    "graphfl": "clients meta-learn a network that adapts to few labels",
    "graphfl-ga": "graphfl with clients that configure themselves",
    "sfgnn": "own message passing for each client, one discriminator for all",
    "asfgnn": "SFGNN with hyperparameters tuned by Bayesian optimization",
}
#: How clients learn together, and who chooses what is trained.
_PARTS = {
    "centralized": ("pooled", "–"),
    "separate": ("alone", "–"),
    "fedavg": ("common", "–"),
    "fl-agcns": ("common", "evolution in controller and clients"),
    "fl-random": ("common", "random"),
    "fl-rl": ("common", "Q-learning"),
    "fl-darts": ("common", "gradients"),
    "fedgraph": ("across clients", "DDPG over sampling policies"),
    "graphfl": ("meta", "–"),
    "graphfl-ga": ("meta", "genetic algorithm in each client"),
    "sfgnn": ("own encoder, common head", "–"),
    "asfgnn": ("own encoder, common head", "Bayesian optimization"),
}
METHODS: dict[str, MethodEntry] = {
    name: MethodEntry(
        f"autofgl.methods.{home}",
        settings if settings.startswith("autofgl.") else f"autofgl.methods.{settings}",
        _SUMMARIES[name],
        *_PARTS[name],
        secure="shares" if name in ("sfgnn", "asfgnn") else "none",
        sums_securely=name not in ("centralized", "separate"),
    )
    for name, (home, settings) in _HOMES.items()
}

#: Classes that were handed over, by the name that finds them again.
_GIVEN: "dict[str, type[Method]]" = {}


def find_method(name: str) -> "type[Method]":
    """The method of a name, ``module:Class`` or ``path/to/file.py:Class``; else a UserError."""
    if name in _GIVEN:
        return _GIVEN[name]
    if name not in METHODS and ":" not in name:
        raise unknown_name("method", name, METHODS)
    method = _load(METHODS[name].home if name in METHODS else name)

    from autofgl.runtime.method import Method

    if not (isinstance(method, type) and issubclass(method, Method)):
        raise UserError(f"'{name}' is not a method: derive it from autofgl.Method")
    return method


def settings_of(name: str) -> Any:
    """The settings of a method; those of our own need no torch."""
    return _load(METHODS[name].settings) if name in METHODS else find_method(name).Settings


def default_secure(name: str) -> str:
    """The secure mode of a run that names none."""
    return METHODS[name].secure if name in METHODS else "none"


def absolute_name(name: str) -> str:
    """The name of a method in a file with the file's whole path, which any process finds."""
    where, colon, own = name.rpartition(":")
    return f"{Path(where).resolve()}{colon}{own}" if where.endswith(".py") else name


def name_of(method: "type[Method]") -> str:
    """The name by which any process finds a class again; a UserError if none could."""
    for name, entry in METHODS.items():
        if entry.home == f"{method.__module__}:{method.__qualname__}":
            return name
    text = f"{_home(method)}:{method.__qualname__}"
    _GIVEN[text] = method
    return text


def _home(method: "type[Method]") -> str:
    """The module of a class, or its file where a new process would not find the module."""
    package = method.__module__.partition(".")[0]
    if "." not in method.__qualname__:
        # The first entry is the folder of the script, which other processes do not look into.
        if importlib.machinery.PathFinder.find_spec(package, sys.path[1:]) is not None:
            return method.__module__
        file = getattr(sys.modules.get(method.__module__), "__file__", None)
        if file:
            return str(Path(file).resolve())
    raise UserError(
        f"{method.__qualname__} lives in no module: write it into a file of its own, so that "
        "other processes and a resumed run find it"
    )


def _load(home: str) -> Any:
    """What a ``module:name`` or ``file.py:name`` stands for."""
    where, _, name = home.rpartition(":")
    try:
        module = (
            _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
        )
    except UserError:
        raise
    except Exception as error:  # whatever somebody's module raises when it is imported
        raise UserError(f"method '{home}': {type(error).__name__}: {error}") from error
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
    except BaseException:
        del sys.modules[name]
        raise
    return module
