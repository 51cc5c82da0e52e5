"""The methods by name: what each is, and where it lives. Nothing here needs torch."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autofgl import plugins
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
    "fedavg": ("baselines:FedAvg", "autofgl.runtime.federated_settings:FederatedSettings"),
    "fl-agcns": ("fl_agcns.controller:FLAGCNS", "fl_agcns.settings:FLAGCNSSettings"),
    "fl-random": ("fl_agcns.rivals:FLRandom", "fl_agcns.settings:CandidateSettings"),
    "fl-rl": ("fl_agcns.rivals:FLRL", "fl_agcns.settings:RLSettings"),
    "fl-darts": ("fl_agcns.darts:FLDarts", "fl_agcns.settings:DartsSettings"),
    "fedgraph": ("fedgraph.server:FedGraph", "fedgraph.settings:FedGraphSettings"),
    "graphfl": ("graphfl.method:GraphFL", "graphfl.settings:GraphFLSettings"),
    "graphfl-ga": ("graphfl.method:GraphFLGA", "graphfl.settings:GraphFLGASettings"),
    "sfgnn": ("asfgnn.method:SFGNN", "asfgnn.settings:SFGNNSettings"),
    "asfgnn": ("asfgnn.method:ASFGNN", "asfgnn.settings:ASFGNNSettings"),
    "auto": ("auto.method:Auto", "auto.settings:AutoSettings"),
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
    "auto": "the best model for every client, with a proof: a race over all of these",
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
    "auto": ("any, chosen for each client", "race, then variations and evolution"),
}
METHODS: dict[str, MethodEntry] = {
    name: MethodEntry(
        f"autofgl.methods.{home}",
        settings if settings.startswith("autofgl.") else f"autofgl.methods.{settings}",
        _SUMMARIES[name],
        *_PARTS[name],
        secure="shares" if name in ("sfgnn", "asfgnn", "auto") else "none",
        sums_securely=name not in ("centralized", "separate"),
    )
    for name, (home, settings) in _HOMES.items()
}


def find_method(name: str) -> "type[Method]":
    """The method of a name, ``module:Class`` or ``path/to/file.py:Class``; else a UserError."""
    if name in METHODS:
        method = _ours(METHODS[name].home)
    elif plugins.is_known("method", name):
        method = plugins.find("method", name)
    else:
        plugins.check_named("method", name)
        raise unknown_name("method", name, [*METHODS, *plugins.entry_points("method")])

    from autofgl.runtime.method import Method

    if not (isinstance(method, type) and issubclass(method, Method)):
        raise UserError(f"'{name}' is not a method: derive it from autofgl.Method")
    return method


def settings_of(name: str) -> Any:
    """The settings of a method; those of our own need no torch."""
    return _ours(METHODS[name].settings) if name in METHODS else find_method(name).Settings


def default_secure(name: str) -> str:
    """The secure mode of a run that names none."""
    return METHODS[name].secure if name in METHODS else "none"


def method_name(method: "type[Method]") -> str:
    """The name by which any process finds a class again; a UserError if none could."""
    for name, entry in METHODS.items():
        if entry.home == f"{method.__module__}:{method.__qualname__}":
            return name
    return plugins.name_of("method", method)


def _ours(home: str) -> Any:
    """What a ``module:name`` of this package stands for."""
    module, _, name = home.partition(":")
    return getattr(importlib.import_module(module), name)
