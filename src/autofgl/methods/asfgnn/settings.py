"""Settings of SFGNN and ASFGNN, and the hyperparameters of single clients."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from autofgl.errors import UserError, unknown_name
from autofgl.runtime.federated_settings import ClientsSettings
from autofgl.runtime.recipe import changed
from autofgl.runtime.settings import BatchSettings, Count, Share, TrainSettings, Whole
from autofgl.search.genes import Float, Gene, Integer, LogFloat, Ordinal
from autofgl.search.searcher import SearchError
from autofgl.search.space import SearchSpace
from autofgl.secure.accountant import Releases

#: What each client may have a value of its own for.
OWN = ("dropout", "weight_decay", "layers", "lr")
#: What is the same at all clients: embeddings meet one discriminator.
COMMON = "hidden"

_FORM = "write a list such as 0.001,0.01 or a range such as 1..5 or 5e-4..1e-2 log"
_WHOLE = ("layers", COMMON)


class SFGNNSettings(BatchSettings, ClientsSettings, TrainSettings):
    """Separated message passing and a federated discriminator."""

    discloses: ClassVar[dict[str, Any]] = {"collect_models": True}

    normalize_features: Literal["unit"] | bool = True
    """scale the features of each node to sum to 1 (true) or to length 1 (unit)"""
    layers: int = Field(2, ge=1, le=16)
    """depth K of the message passing"""
    select: Literal["objective", "accuracy", "loss", "last"] = "accuracy"
    """which round's weights are kept: best objective on all validation nodes, best mean of the
    clients' validation accuracies (the loss breaks ties of both), lowest validation loss, or the
    last"""
    chosen_by: Literal["federation", "client"] = "federation"
    """who says which round that is: all together, or each client for itself by its own validation
    nodes, as if it were alone"""
    local_epochs: Count = 1
    """local steps of a client in a round"""
    mixing: Literal["js", "class", "both", "none", "constant"] = "js"
    """js: a client keeps the share JS(Q_i, Q_s) of its own discriminator; none: it takes the mean
    as it is; class: it takes the mean, in which the output layer's column of a class is weighted by
    the clients' labels of the class; both: js with that mean; constant: it keeps the share
    'keep'"""
    keep: Share = 0.5
    """mixing=constant: from 0, the mean, to 1, its own"""
    common: bool = False
    """train a network besides that is common to all clients, so that each can predict classes that
    it has no labels of"""
    common_layers: int = Field(3, ge=1, le=16)
    """common: depth of that network"""
    own_prior: float = Field(0.95, gt=0, lt=1)
    """common: how likely a node that a client is asked about is of a class that it has labels of"""
    per_client: str = ""
    """hyperparameters of single clients, as in 'client-0 layers=4 lr=0.005; client-1 dropout=0'"""
    collect_models: bool = False
    """put every client's whole network into the run folder; else message passing never leaves its
    client"""

    @property
    def releases(self) -> Releases | None:
        """An update in every round, and figures once, at the end; none if networks are sent, or
        columns of the output layer by class.
        """
        told = self.collect_models or self.mixes_by_class
        return None if told else Releases(self.rounds, 1)

    @property
    def way(self) -> str:
        """The way of sharing."""
        return "own-and-common" if self.common else "own-encoder"

    @property
    def mixes_by_class(self) -> bool:
        """Whether the output layer is averaged class by class."""
        return self.mixing in ("class", "both")


class ASFGNNSettings(SFGNNSettings):
    """Trials of SFGNN with hyperparameters that a searcher proposes, then a training to keep."""

    searcher: Literal["bayes", "tpe", "random", "grid", "local"] = "bayes"
    """who proposes hyperparameters: the server for all clients (bayes; tpe, random or grid, which
    needs lists, to compare), or each client its own, judged by its own validation nodes (local)"""
    trials: Count = 30
    """hyperparameter sets that are tried"""
    trial_rounds: Count = 100
    """rounds of a trial"""
    trial_patience: Whole = 0
    """rounds without a lower validation loss after which a trial ends; 0: none"""
    startup: Count = 10
    """trials of the space-filling design (bayes, tpe, local)"""
    pruning: bool = False
    """end trials early that are worse than the median so far"""
    joint: bool = True
    """hyperparameters of every client on its own, in one space; false: the same for all clients"""
    tune_dropout: str = Field(default="0..0.6", description=f"values of dropout; {_FORM}")
    tune_weight_decay: str = "1e-5..1e-2 log"
    """values of weight_decay; empty: not tuned"""
    tune_layers: str = "1..5"
    """values of layers; empty: not tuned"""
    tune_lr: str = "5e-4..2e-2 log"
    """values of lr; empty: not tuned"""
    tune_hidden: str = "64,128,256,512"
    """values of hidden, common to all clients; empty: not tuned"""

    @property
    def releases(self) -> Releases | None:
        """Those of every trial, and of the training; votes of clients have no bound."""
        trained = super().releases
        if trained is None or self.searcher == "local":
            return None
        updates = self.trials * self.trial_rounds + trained.updates
        return Releases(updates, self.trials + trained.figures)

    @property
    def total_rounds(self) -> int:
        """Rounds of the trials and of the training."""
        return self.trials * self.trial_rounds + self.rounds

    @field_validator(*(f"tune_{name}" for name in (*OWN, COMMON)), mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        """A single value is a list of one."""
        return f"{given!r}" if isinstance(given, int | float) else given


def hyper_parameters(settings: SFGNNSettings, clients: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Every client's hyperparameters; a UserError if ``per_client`` has what does not fit."""
    given = _read_per_client(settings.per_client, clients)
    own = {name: changed(settings, given.get(name, {}), "per_client") for name in clients}
    return {
        name: {key: getattr(values, key) for key in (*OWN, COMMON)} for name, values in own.items()
    }


def joint_space(settings: ASFGNNSettings, clients: Sequence[str]) -> SearchSpace:
    """A gene ``<client>.<name>`` each, and the common width; a UserError for wrong ranges."""
    owners = list(clients) if settings.joint else [""]
    names = [(owner, name) for owner in owners for name in OWN] + [("", COMMON)]
    genes = [gene for owner, name in names if (gene := _gene(settings, owner, name)) is not None]
    if not genes:
        raise UserError("nothing is tuned: give tune_lr or another range, or run sfgnn")
    if settings.searcher == "grid" and any(gene.values is None for gene in genes):
        raise UserError(f"searcher=grid needs lists: {_FORM.partition(' or')[0]}")
    return SearchSpace(tuple(genes))


def largest_values(settings: ASFGNNSettings) -> dict[str, int]:
    """The greatest width and depth that a client may be asked for."""
    largest = {}
    for name in _WHOLE:
        gene = _gene(settings, "", name)
        if gene is not None:
            most: Any = gene.values[-1] if gene.values is not None else gene.high  # type: ignore[attr-defined]
            largest[name] = int(most)
    return largest


def by_client(
    chromosome: Mapping[str, Any], fixed: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Hyperparameters of every client: the chromosome's, else the fixed ones."""
    return {
        client: {
            name: chromosome.get(f"{client}.{name}", chromosome.get(name, value))
            for name, value in own.items()
        }
        for client, own in fixed.items()
    }


def _gene(settings: ASFGNNSettings, owner: str, name: str) -> Gene | None:
    text = getattr(settings, f"tune_{name}").strip()
    if not text:
        return None
    key = f"{owner}.{name}" if owner else name
    try:
        gene = _read_range(key, text, whole=name in _WHOLE)
        ends = gene.values if gene.values is not None else (gene.low, gene.high)  # type: ignore[attr-defined]
    except (ValueError, SearchError) as error:
        raise UserError(f"tune_{name}='{text}': {error}; {_FORM}") from error
    for value in (ends[0], ends[-1]):
        changed(settings, {name: value}, f"tune_{name}")
    return gene


def _read_range(key: str, text: str, whole: bool) -> Gene:
    number: Any = int if whole else float
    if ".." not in text:
        return Ordinal(key, tuple(sorted(number(part) for part in text.split(","))))
    bounds, _, scale = text.partition(" ")
    low, _, high = bounds.partition("..")
    if whole:
        return Integer(key, int(low), int(high))
    if scale.strip() not in ("", "log"):
        raise ValueError(f"'{scale.strip()}' is no scale")
    return (LogFloat if scale else Float)(key, float(low), float(high))


def _read_per_client(text: str, clients: Sequence[str]) -> dict[str, dict[str, str]]:
    values: dict[str, dict[str, str]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        name, *pairs = part.split()
        if name not in clients:
            raise unknown_name("client in per_client", name, clients)
        own = values.setdefault(name, {})
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals or key not in OWN:
                raise UserError(
                    f"per_client: '{pair}' is not key=value with one of {', '.join(OWN)}"
                )
            own[key] = value
    return values
