"""A way of learning together, as the round engine sees it: a server half and a client half.

:mod:`autofgl.sharing` has the ways; :mod:`autofgl.runtime.rounds` calls them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from autofgl.errors import unknown_name
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import ClientGraph
from autofgl.nn.models.spec import NetworkSpec
from autofgl.runtime.bounds import metrics_form, share_form
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.clients import Clients
from autofgl.runtime.details import (
    DETAILED,
    detail_kinds,
    objective_kinds,
    to_units,
    with_objective,
)
from autofgl.runtime.local_model import LocalModel
from autofgl.runtime.metrics import SIZE, Metrics, scale_down, scale_up
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import OWN, Form
from autofgl.runtime.reversal import Flat
from autofgl.runtime.rows import Place
from autofgl.runtime.state import restore_state, saved_state
from autofgl.secure import Reveal
from autofgl.seeding import numpy_generator


@dataclass(frozen=True)
class Ending:
    """What a training ends with: the clients' last replies and the sum of their final figures."""

    replies: Mapping[str, Payload]
    total: Mapping[str, Any]
    totals: list[int]
    best_round: int

    @property
    def own(self) -> dict[str, Payload]:
        """What each client says about itself; nothing where that is its own affair."""
        return {name: reply["own"] for name, reply in self.replies.items()}


class SharingClient(ABC):
    """The client half of a way of sharing: what a client takes in, contributes and keeps."""

    local: LocalModel
    #: Who reads the summed update, the server or the clients alone.
    reveal: Reveal = "server"
    #: Whether figures and update travel in one sum: a secure sum costs a round trip.
    one_sum: bool = False
    #: How often clients wait for rows of each other before a round.
    exchanges: int = 0
    #: Attributes that a checkpoint has.
    saved: ClassVar[tuple[str, ...]] = ("local",)

    def weigh_classes(self, weights: Sequence[float]) -> None:
        """Balance the loss by weights of the classes, before anything is trained or evaluated."""
        self.local.loss = self.local.loss.with_weights(weights)

    def show_test(self, data: ClientData) -> None:
        """A network on trial is to stay: from now on its figures are of test nodes too."""
        self.local.show_test(data.inputs(self.local.settings.normalize_features))

    @abstractmethod
    def take(self, payload: Payload, opened: Mapping[str, Any]) -> None:
        """Take in what was handed out; ``opened`` is the summed update, if clients open it."""

    def rows_to_send(self, exchange: int, payload: Payload) -> Any:
        """Of an exchange, a row of every own node, ``[n, width]``, or of every external one if rows
        go back; the payload is that of the round.
        """
        raise NotImplementedError

    def goes_back(self, exchange: int) -> bool:  # noqa: ARG002
        """Whether rows of an exchange are about external nodes, and go to their owners."""
        return False

    def width_of(self, exchange: int) -> int:
        """Length of a row in an exchange."""
        raise NotImplementedError

    def take_rows(self, exchange: int, place: Place, rows: Any) -> None:
        """Take in rows of some external nodes, or of own ones if they come back."""
        raise NotImplementedError

    @property
    def evaluated(self) -> LocalModel:
        """What the figures of a round are of."""
        return self.local

    def figures(self, payload: Payload) -> dict[str, Any]:
        """Sums over the own nodes, small enough for any secure sum; empty: nothing to report."""
        local, totals = self.evaluated, payload["totals"]
        sums, counts = local.evaluate_counting(objective_kinds(local.settings), ["val"])
        figures = {"metrics": scale_down(sums, totals), **to_units(counts, "val_")}
        if payload.get("calibrate"):
            figures["tempered"] = local.tempered() / max(totals[1], 1)
        return {**figures, **local.flags()}

    def accepts(self, opened: Mapping[str, Any], late: bool) -> bool:  # noqa: ARG002
        """Whether a summed update that clients open can be one; all of them decide alike.

        Some may have contributed that came too ``late`` to be counted.
        """
        return bool(opened)

    def on_grid(self, opened: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        """Those vectors of a summed update that may travel in fewer bytes."""
        return {}

    @abstractmethod
    def update(self, payload: Payload) -> dict[str, Any]:
        """Weighted vectors for the next sum; all zero where ``train`` is false."""

    def reference(self) -> Mapping[str, Any]:
        """Weights that everybody has and that the next update replaces; none with gradients."""
        return {}

    def settle(self, payload: Payload) -> None:  # noqa: B027
        """Take the final weights: those given, or the best that were kept."""

    def final_figures(self, payload: Payload) -> dict[str, Any]:
        """Figures of the final weights."""
        return self.figures(payload)

    def predictions(self) -> Tensor:
        """Outputs of the final weights for all own nodes, ``[n, classes]``, once the training is
        concluded.
        """
        return self.local.logits()

    def details(self) -> dict[str, Any]:
        """Counted predictions of the final weights on validation and test nodes."""
        kinds = detail_kinds(self.local.settings)
        return to_units(self.local.counts_of(self.local.logits(), kinds, DETAILED))

    def describe(self, graph: ClientGraph) -> Payload:
        """Sizes and figures, as a client tells them in the clear."""
        return {
            "nodes": graph.num_nodes,
            "edges": graph.num_links,
            "metrics": self.local.evaluate(),
        }

    def about(self) -> Payload:
        """What else the server is told at the end, in every secure mode."""
        return {}

    def after(self, payload: Payload) -> Payload:  # noqa: ARG002
        """What there is to do once the contribution is made, and what the reply says besides."""
        return {}

    def fingerprint(self) -> str:
        """Names and shapes of the network's parameters in short, where its code is not ours."""
        return ""

    def export(self) -> Payload:
        """The weights held now, and the network that they belong to.

        It is asked for before the first round and after :meth:`settle`: what it gives must be the
        same at all clients then, or such as the settings say is collected.
        """
        return {"weights": self.local.weights(), "spec": self.local.spec.to_json()}

    def common_state(self) -> Payload:
        """What all clients have alike, for one that missed some rounds, unless the server hands it
        out with every round.
        """
        return {}

    def load_common(self, state: Payload) -> None:  # noqa: B027
        """Take what :meth:`common_state` of another client gave."""

    def state(self) -> Payload:
        """Everything between two rounds."""
        return saved_state(self, self.saved)

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, self.saved, state)


class SharingServer(ABC):
    """The server half of a way of sharing: what is handed out, and what becomes of the sums."""

    #: Attributes that a checkpoint has.
    saved: ClassVar[tuple[str, ...]] = ()
    #: Whether a client that is late may join again: not if it would have other weights.
    waits_for_late: bool = False
    #: Who reads the summed update, and whether it comes with the figures; as at the clients.
    reveal: Reveal = "server"
    one_sum: bool = False
    #: Whether clients can say what the update that they open foretells, if a round asks for it
    #: (``foretell``; :mod:`autofgl.runtime.progress`).
    foretells: bool = False
    #: Whether :meth:`begin` leaves nothing of a training before it, so that it can begin anew.
    begins_anew: bool = False
    #: What else a client answers to a round and at the end.
    round_fields: ClassVar[Mapping[str, Form]] = {}
    conclude_fields: ClassVar[Mapping[str, Form]] = {"own": OWN}
    #: The same, where it may be missing.
    conclude_options: ClassVar[Mapping[str, Form]] = {}
    #: How many kinds of weights clients count predictions of, and which of them the result is of.
    kinds: ClassVar[int] = 1
    result_kind: int = 0
    #: Whether only clients have what all of them have alike, so that one that missed some rounds
    #: needs it from another.
    common_at_clients: bool = False

    def __init__(self, clients: Clients, settings: Any, seed: int) -> None:
        self.clients = clients
        self.settings = settings
        self.seed = seed

    def begin(self, replies: Mapping[str, Payload]) -> None:  # noqa: B027
        """The clients have built their networks."""

    def participants(self, at: int) -> set[str]:
        """Who trains in a round: each client has an equal chance."""
        return self.draw(list(self.clients.names), at)

    def draw(self, names: list[str], at: int) -> set[str]:
        """The participating share of some clients, in a round; as many as a secure sum needs."""
        share = round(self.settings.participation * len(names))
        count = min(max(1, share, self.clients.fewest), len(names))
        rng = numpy_generator(self.seed, "participation", at)
        return set(rng.choice(names, count, replace=False).tolist())

    @abstractmethod
    def handout(self) -> Payload:
        """What every client takes in with the next round."""

    def exchange_rows(
        self,
        message: Payload,  # noqa: ARG002
        handout: Payload,
    ) -> tuple[Payload, dict[str, Payload]]:
        """Before a round, or the end if the message ``settles``: let clients tell each other what
        they need. What is left to hand out, and what each client is handed besides.
        """
        return handout, {}

    def handout_each(self, chosen: set[str]) -> dict[str, Payload]:
        """What each client receives besides; ``chosen`` are those that train."""
        return {name: {"train": name in chosen} for name in self.clients.names}

    def figure_forms(self, most: float) -> dict[str, Form]:
        """What the summed figures can be; ``most`` is what shares of all nodes add up to."""
        return {"metrics": metrics_form(SIZE, most)}

    def final_forms(self, most: float) -> dict[str, Form]:
        """The same of the final figures."""
        return self.figure_forms(most)

    def share_form(self, most: float) -> Form:
        """What the clients' summed weights in an average can be."""
        return share_form(most)

    def update_forms(self) -> dict[str, Form]:
        """What the summed update can be, besides its share."""
        return {}

    def center(self) -> Mapping[str, Any] | None:
        """What an update is near to: the last weights, or nothing for a gradient; None where
        updates cannot be compared.
        """
        return None

    def step_of(self, total: Mapping[str, Any]) -> Flat | None:  # noqa: ARG002
        """The step that the weights of all clients take by a summed update, where their losses
        depend on these weights alone; None elsewhere. Where the server sees single updates, it
        tells by it whether they are reversed; asked once in a round.
        """
        return None

    def skip(self) -> None:  # noqa: B027
        """A round was refused: the next one begins where it began."""

    def judge(self, figures: Mapping[str, Any], totals: list[int]) -> tuple[Row, Metrics]:
        """Columns of the history from summed figures, and the metrics that rounds compete by."""
        metrics = Metrics.of(scale_up(np.asarray(figures["metrics"]), totals))
        metrics = with_objective(metrics, self.settings, figures)
        return dict(metrics.row()), metrics

    def keep(self, best: bool) -> None:  # noqa: B027
        """The weights just evaluated are the best so far, or not."""

    @abstractmethod
    def aggregate(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> Row:
        """Make the next handout of a summed update; columns for the history."""

    def before_checkpoint(self) -> None:  # noqa: B027
        """Bring everything into a state that outlives the present keys."""

    def settle(self, last_is_best: bool) -> Payload:  # noqa: ARG002
        """What the clients need to settle on the final weights."""
        return {}

    def settle_each(self) -> dict[str, Payload]:
        """What each of them needs besides."""
        return {}

    @abstractmethod
    def outcome(self, end: Ending) -> Outcome:
        """The outcome of a training that has come to its end."""

    def state(self) -> Payload:
        """Everything between two rounds."""
        return saved_state(self, self.saved)

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, self.saved, state)


@dataclass(frozen=True)
class Sharing:
    """A way of learning together: its name in recipes, its two halves, and its networks."""

    name: str
    server: Callable[[Clients, Any, int], SharingServer]
    #: From data, recipe, settings, secure mode, and whether it is a trial: test nodes are then left
    #: alone, and the network may diverge.
    client: Callable[[ClientData, Recipe, Any, str, bool], SharingClient]
    spec: Callable[[ClientGraph, Any], NetworkSpec]
    #: What the server sees of single clients, so that no secure mode can give it; empty: nothing.
    reveals: str = ""
    #: Whether clients tell each other rows, so that they need keys with each other.
    exchanges: bool = False
    #: Refuses graphs, settings and networks that it cannot work with.
    check: Callable[[ClientGraph, Any, NetworkSpec], None] = lambda _graph, _settings, _spec: None


def way_of(ways: Mapping[str, Sharing], settings: Any, name: str = "") -> Sharing:
    """The way of a recipe's ``name``, else that of the settings, else the first.

    Raises:
        UserError: A recipe names a way that is not among these.
    """
    if name and name not in ways:
        raise unknown_name("way of sharing", name, ways)
    name = name or getattr(settings, "way", "")
    return ways.get(name) or next(iter(ways.values()))
