"""The round engine: one place that makes the rounds of every training.

It counts nodes, hands out what is new, evaluates on the way, sums figures and updates, keeps the
best round, counts rounds without improvement, and resumes bit for bit. What differs between ways of
learning together is in two small halves, at the server and at the client
(:mod:`autofgl.runtime.sharing`).

A round evaluates the weights that it begins with and makes the next ones, in a single call to each
client: the figures of round t are those of the weights after t-1 updates.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from autofgl.errors import UserError
from autofgl.federation.party import Context, Party, Refused, Replies, require_later
from autofgl.federation.payload import Payload, decode, encode
from autofgl.runtime.bounds import ROUNDING, SumOutOfBounds, UsualDistance, model_distance
from autofgl.runtime.clients import Summing, average
from autofgl.runtime.compression import Encoded, UpdateCoder
from autofgl.runtime.details import (
    detail_forms,
    detailed,
    objective_forms,
    without_objective,
)
from autofgl.runtime.local_model import ClientData
from autofgl.runtime.metrics import BestRound, client_accuracies, train_losses
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.progress import Progress, foretold_by
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import (
    SECONDS_SUM,
    SUM,
    TAKE,
    WEIGHTS,
    WHOLE,
    Array,
    Form,
    Number,
    Record,
    Scalar,
    Truth,
)
from autofgl.runtime.reversal import ReversalCheck, flattened
from autofgl.runtime.rows import RowExchange
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer, way_of
from autofgl.runtime.state import Saved, restore_state, saved_state
from autofgl.tasks.losses import TEMPERATURES, balanced_weights

#: What a client answers to ``start``, to ``round`` and to ``conclude``; the way of sharing adds its
#: own. ``refused`` says that the last summed update was out of bounds and not taken in.
START = Record({"counts": SUM}).perhaps(
    {
        "reference": WEIGHTS,
        "network": Scalar(),
        "parameters": WHOLE,
        "exchanges": Number(0, 4096, True),
    }
)
#: What a client answers that is to go on with a training: whether it needs another's state for it.
GO_ON = Record({"behind": Truth()})
ROUND = Record({}).perhaps({"metrics": SUM, "update": SUM, "refused": Truth()})
CONCLUDE = Record({"report": SUM}).perhaps({"seconds": SUM})
#: What all clients that only evaluate get alike of a round's message.
_BROADCAST = ("stage", "round", "totals", "contribute", "class_weights", "calibrate")
#: What a client's state says of where it is: the stages that it had, and the present one.
_ORDER = ("phase", "_stages", "_stage", "_round")
#: A training begins anew while at least such a part of its rounds is left.
_WORTH_IT = 1 / 3
#: Beyond all draws of the initial weights that searches use: no sum is to be of weights that others
#: were of, with other clients.
_OTHER_DRAWS = 1_000_000
#: Columns of the history without a value where nobody reports figures.
_UNREPORTED = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


@dataclass
class Parked:
    """A training that a client can go on with: its recipe, what it has, and its last round."""

    recipe: Payload
    sharing: SharingClient
    coder: UpdateCoder
    round: int

    def state(self) -> Payload:
        """Everything between two rounds."""
        coder = {"coder": self.coder.state()} if self.coder.active else {}
        sharing = self.sharing.state()
        return {"recipe": self.recipe, "round": self.round, "sharing": sharing, **coder}


class RoundClient(Summing, Party):
    """The client half of the round engine; a recipe that names no way takes the first.

    It trains one network after the other. Each has a ``stage``, put before the names of all its
    sums, which is never used again; its rounds follow each other. Where a search lets several
    networks compete, a training is parked while others have their turn, and goes on later.
    """

    operations: ClassVar[frozenset[str]] = Summing.operations | {
        "start", "go_on", "round", "take", "conclude", "export", "common_state", "catch_up",
        "agree", "introduce", "meet", "exchange",
    }  # fmt: skip
    #: Weights are handed out when they are the same everywhere: before a training, and after it.
    phases: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "new": {
            "start": "started", "round": "training", "export": "new", "catch_up": "training",
            "go_on": "new",
        },
        "started": {
            "start": "started", "round": "training", "export": "started",
            "common_state": "started", "catch_up": "training", "go_on": "training",
            "exchange": "training",
        },
        "training": {
            "start": "started", "round": "training", "take": "training", "conclude": "concluded",
            "common_state": "training", "catch_up": "training", "go_on": "training",
            "exchange": "training",
        },
        "concluded": {
            "start": "started", "export": "concluded", "catch_up": "training", "go_on": "training",
        },
        "failed": {"start": "started"},
    }  # fmt: skip
    #: Attributes that a checkpoint has, besides the recipe and what its training has.
    saved: ClassVar[tuple[str, ...]] = ()
    #: Those of them that are the same at all clients, for one that missed some rounds.
    common: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: Any,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold, settings)
        self.data = data
        data.inputs(settings.normalize_features)  # laid out now: a call has a time limit
        self.settings = settings
        self._ways = ways
        self._secure = secure
        self._recipe: Payload = {}
        self._sharing: SharingClient | None = None
        self._stages: list[str] = []
        self._parked: dict[str, Parked] = {}
        self._late = False  # whether the last sum is of clients that were not all counted
        self._stage = ""
        self._round = 0
        self.coder = self._new_coder()
        self._rows = RowExchange(context)
        self._exchanged = (0, -1)  # round and number of the last exchange
        self._ahead: Payload = {}  # what was handed out before the round that it is for
        self._refused: Payload = {}

    @property
    def sharing(self) -> SharingClient:
        """The client half of the present way of sharing; the run's own before any recipe."""
        if self._sharing is None:
            self._adopt(self._recipe)
        assert self._sharing is not None
        return self._sharing

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a stage or a round that was there before, and handouts that nobody needs."""
        if op == "take" and self.sharing.reveal != "parties":
            raise Refused("operation 'take' is for sums that clients open")
        if op in ("round", "conclude", "exchange") and payload["stage"] != self._stage:
            raise Refused(f"stage '{payload['stage']}' is not the present one")
        if op == "round":
            require_later("round", payload["round"], self._round)
        if op == "exchange":
            require_later("round", payload["round"], self._round)
            require_later("exchange", (payload["round"], payload["exchange"]), self._exchanged)
        last = self._last_round(payload["stage"]) if op == "catch_up" else None
        if op in ("start", "catch_up") and payload["stage"] in self._stages and last is None:
            raise Refused(f"stage '{payload['stage']}' was there before")
        if last is not None:
            require_later("round", payload["round"], last - 1)

    def start(self, payload: Payload) -> Payload:
        """Build the network of a recipe, at weights that are the same everywhere; count own nodes.

        Payload: ``stage``; a recipe's ``sharing``, ``network`` and ``settings``; ``trial``; which
        trainings to ``park`` and to ``forget``.
        """
        self.make_room(payload)
        self._enter(payload)
        counts = self.count(f"{self._stage}start", self.data.counts(), self.label_counts())
        reference = {"reference": self.sharing.reference()} if self.private else {}
        network = self.sharing.fingerprint()
        about: Payload = {"network": network} if network else {}
        if payload.get("trial"):
            about["parameters"] = self.sharing.local.parameters
        if self.sharing.exchanges:
            about["exchanges"] = self.sharing.exchanges
        return {"counts": counts, **reference, **about}

    def go_on(self, payload: Payload) -> Payload:
        """Take up a training that was parked.

        Payload: its ``stage`` and last ``round``; ``exact``, whether another round would be another
        network; ``test``, whether its figures are of test nodes too from now on; which trainings
        to ``park`` and to ``forget``.
        """
        self.make_room(payload)
        stage = payload["stage"]
        last = self._last_round(stage)
        if last is None or (payload["exact"] and last != payload["round"]):
            return {"behind": True}
        if stage in self._parked:
            parked = self._parked.pop(stage)
            self._recipe, self._sharing, self.coder = parked.recipe, parked.sharing, parked.coder
            self._stage, self._round = stage, parked.round
        if payload.get("test"):
            self._recipe = {**self._recipe, "test": True}
            self.sharing.show_test(self.data)
        return {"behind": False}

    def agree(self, payload: Payload) -> Payload:
        """Answer a phase of the key exchange with the peers."""
        return self._rows.agree(payload)

    def introduce(self, payload: Payload) -> Payload:  # noqa: ARG002
        """Tell the owners of external neighbors which of their nodes matter here."""
        return {"boxes": self._rows.introduce(self.data.operators.neighborhood)}

    def meet(self, payload: Payload) -> Payload:
        """Learn which own nodes matter elsewhere."""
        self._rows.meet(payload["boxes"], self.data.graph.num_nodes)
        return {}

    def exchange(self, payload: Payload) -> Payload:
        """Tell the peers their rows of a hop, with those that they told of the hop before.

        Payload: ``stage``, ``round`` and number of the ``exchange``; with the first what a round or
        a report is handed out, and whether it ``settles``; later the ``boxes`` of the last one.
        """
        at = payload["exchange"]
        if at == 0 and payload.get("settles"):
            self.sharing.settle(payload)
        elif at == 0:
            self._refused = self.take(payload)
        else:
            self._take_rows(payload)
        self._ahead = payload if at == 0 else self._ahead
        self._exchanged = (payload["round"], at)
        return {"boxes": self._rows.seal(self._row_tag(at), self.sharing.rows_to_send(at))}

    def _after_exchange(self, payload: Payload) -> Payload:
        """A message with what was handed out ahead of it; the last rows are taken in."""
        if not self._ahead:
            return payload
        ahead, self._ahead = self._ahead, {}
        self._take_rows(payload)
        given = {**ahead, **payload}
        return {key: given[key] for key in given if key not in ("boxes", "exchange")}

    def _take_rows(self, payload: Payload) -> None:
        """Take in what peers sent in the last exchange; of those that did not, the last stays."""
        at = self._exchanged[1]
        boxes, width = payload.get("boxes", {}), self.sharing.width_of(at)
        for peer, rows in self._rows.open(self._row_tag(at), boxes, width).items():
            self.sharing.take_rows(at, self._rows.places[peer], rows)

    def _row_tag(self, at: int) -> str:
        return f"{self._stage}{self._exchanged[0]}-{at}"

    def round(self, payload: Payload) -> Payload:
        """Take in what is new, evaluate it, and contribute to the next update if asked to.

        Payload: what the way of sharing hands out; ``stage``; ``round``; ``totals``, the
        federation's node counts; ``train``; ``contribute``, false for an evaluation alone;
        ``update``, false if nobody trains; ``report``, false where differential privacy leaves
        figures for the end. With a secure mode a client that does not train contributes zeros:
        masks need all parties.
        """
        sharing, tag = self.sharing, f"{self._stage}{{}}-{payload['round']}"
        self._round = payload["round"]
        self._weigh_classes(payload)
        if self._ahead.get("round") != payload["round"]:
            self._ahead = {}  # of a round that never came
        refused = self._refused if self._ahead else self.take(payload)
        payload = self._after_exchange(payload)
        self._late = payload.get("late", False)
        figures = self._told(sharing.figures(payload))
        figures = figures if payload.get("report", True) else {}
        reference = sharing.reference() if self.private or self.coder.active else {}
        hides = self._secure != "none" and payload.get("update", True)
        trains = payload["contribute"] and (payload.get("train", True) or hides)
        update = sharing.update(payload) if trains else {}
        reply = {**refused, **(sharing.after(payload) if payload["contribute"] else {})}
        same = {key: value for key, value in payload.items() if key != "train"}
        about = {key: payload[key] for key in _BROADCAST if key in payload}
        if sharing.one_sum and (figures or update):
            kind, broadcast = ("update", same) if update else ("metrics", about)
            name = tag.format(kind)
            update, grid = self._encoded_weights(name, update, reference)
            sent = self.contribute(
                name, {**figures, **update}, reference=reference, broadcast=broadcast, grid=grid
            )
            return {**reply, kind: sent}
        if figures:  # those who do not train may have been given less
            reply["metrics"] = self.contribute(tag.format("metrics"), figures, broadcast=about)
        if update and sharing.reveal == "parties":
            reply["update"] = self.contribute_for_clients(tag.format("update"), update, same)
        elif update:
            reply["update"] = self.contribute(
                tag.format("update"), update, reference=reference, broadcast=same
            )
        return reply

    def _encoded_weights(self, tag: str, update: Any, reference: Mapping[str, Any]) -> Encoded:
        """Weights that replace others, in as few bytes as it takes."""
        weights = self.sharing.on_grid(reference) if update else {}
        return self.coder.encode_weights(tag, update, weights)

    def contribute_for_clients(
        self, tag: str, update: Mapping[str, Any], broadcast: Payload
    ) -> Payload:
        """What this client adds to an update that the clients open, in as few bytes as it takes."""
        rounded, grid = self.coder.encode(tag, update)
        return self.contribute(tag, rounded, reveal="parties", broadcast=broadcast, grid=grid)

    def take(self, payload: Payload) -> Payload:
        """Take in what is new, without a round; say so if it is refused."""
        opened = self.coder.open(payload["gradient"]) if "gradient" in payload else {}
        judged = bool(opened) and self._secure != "none"
        refused = judged and not self.sharing.accepts(opened, self._late)
        opened = {} if refused else opened
        self.coder.observe(self.sharing.on_grid(opened))
        self.sharing.take(payload, opened)
        return {"refused": True} if refused else {}

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final weights.

        With a secure mode the time of a pass has a sum of its own, named by ``session``: no two
        sessions measure the same, and the name of a sum stands for one sum.
        """
        sharing = self.sharing
        self._weigh_classes(payload)
        if self._ahead.get("settles"):
            payload = self._after_exchange(payload)
        else:
            sharing.settle(payload)
        report = self._told(sharing.final_figures(payload))
        if self.private is None:  # no noise would cover the counts
            report = {**without_objective(report), **sharing.details()}
        seconds = {"seconds": np.array([sharing.local.inference_seconds(), 1.0])}
        tag = f"{self._stage}conclude"
        if self._secure == "none":
            protected = self.contribute(tag, {**report, **seconds})
            return {"report": protected, "own": self.own_figures(), **sharing.about()}
        times = self.contribute(f"{self._stage}seconds-{payload['session']}", seconds)
        protected = self.contribute(tag, report, broadcast={"totals": payload["totals"]})
        return {"report": protected, "seconds": times, "own": {}, **sharing.about()}

    def own_figures(self) -> Payload:
        """Sizes and figures of this client; with a secure mode nobody else learns them."""
        return self.sharing.describe(self.data.graph)

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The weights that the way of sharing lets out."""
        return self.sharing.export()

    def common_state(self, payload: Payload) -> Payload:  # noqa: ARG002
        """What all clients have alike, for one that missed some rounds; the server cannot read it
        where it could not read what it was made of.
        """
        return {"state": self.sums.wrap(self._place, encode(self._common()))}

    def catch_up(self, payload: Payload) -> Payload:
        """Take up a training where the others are.

        Payload: as for ``start``; ``round``, the last that was made; ``state`` of another client,
        if there is anything that all have alike. What only this client has stays as it is.
        """
        self._parked.pop(payload["stage"], None)
        if payload["stage"] != self._stage or self._sharing is None:
            self.make_room({"park": True})  # it may be that this one goes on later
            self._enter(payload)
        self._round = payload["round"]
        if "state" in payload:
            self._load_common(decode(self.sums.unwrap(self._place, payload["state"])))
        return {}

    def state(self) -> Payload:
        """The recipe, what its training has, and what a method's own client has besides."""
        state = saved_state(self, (*_ORDER, "_recipe", "_sharing", *self.saved))
        state |= {"coder": self.coder.state()} if self.coder.active else {}
        if self._parked:
            state["parked"] = {stage: one.state() for stage, one in self._parked.items()}
        return {**state, "noise": self.private.record.state()} if self.private else state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        restore_state(self, _ORDER, state)
        self._recipe, self._sharing = state["recipe"], None
        if "sharing" in state:
            self.sharing.load_state(state["sharing"])
        self._parked = {}
        for stage, one in state.get("parked", {}).items():
            parked = Parked(
                one["recipe"], self._build(one["recipe"]), self._new_coder(), one["round"]
            )
            parked.sharing.load_state(one["sharing"])
            if "coder" in one:
                parked.coder.load_state(one["coder"])
            self._parked[stage] = parked
        restore_state(self, (*self.saved, "coder"), state)
        if self.private is not None:
            self.private.record.load_state(state["noise"])

    def enter_stage(self, payload: Payload) -> None:
        """Begin a ``stage``: the names of its sums are its own, and its rounds begin anew."""
        self._stage, self._round = payload["stage"], 0
        self._stages.append(self._stage)
        self.coder = self._new_coder()

    def _new_coder(self) -> UpdateCoder:
        compress = getattr(self.settings, "compression", "none")
        active = self.private is None and (self._secure != "none" or compress != "none")
        return UpdateCoder(self.sums, compress, active, self.data.seed, self.data.graph.name)

    def join_stage(self, payload: Payload) -> None:
        """Take up a ``stage`` at the ``round`` where the others are, with the ``state`` of one."""
        if payload["stage"] != self._stage:
            self.make_room({"park": True})
        self.enter_stage(payload)
        self._round = payload["round"]
        self._load_common(decode(self.sums.unwrap(self._place, payload["state"])))

    def label_counts(self) -> Any:
        """Training nodes of each class, if the loss is to be balanced by them."""
        return self.data.label_counts() if self.settings.class_weight == "balanced" else None

    def _told(self, figures: dict[str, Any]) -> dict[str, Any]:
        """With differential privacy the flag of a trial says that test nodes are left alone, and
        nothing else: a network that is to stay has none.
        """
        if self.private is not None and self._recipe.get("test"):
            figures = {name: value for name, value in figures.items() if name != "diverged"}
        return figures

    @property
    def _place(self) -> str:
        return f"{self._stage}{self._round}"

    def _weigh_classes(self, payload: Payload) -> None:
        """Take the weights of the classes, if the server has told any."""
        if "class_weights" in payload:
            self.sharing.weigh_classes(payload["class_weights"])

    def _common(self) -> Payload:
        own = saved_state(self, self.common)
        own |= {"coder": self.coder.common_state()} if self.coder.active else {}
        return own if self._sharing is None else {**own, "sharing": self._sharing.common_state()}

    def _load_common(self, state: Payload) -> None:
        if "sharing" in state:
            self.sharing.load_common(state["sharing"])
        restore_state(self, (*self.common, "coder"), state)

    def _enter(self, payload: Payload) -> None:
        """Begin a stage: a network of its own, whatever was before."""
        given = ("sharing", "network", "settings", "trial", "test")
        self.enter_stage(payload)
        self._recipe, self._sharing = {}, None
        self._adopt({key: payload[key] for key in given if key in payload})

    def _adopt(self, payload: Payload) -> None:
        self._recipe = payload
        self._sharing = self._build(payload)

    def _build(self, payload: Payload) -> SharingClient:
        """What a client has for a recipe, at the weights that all begin with."""
        recipe = Recipe.from_payload(payload)
        settings = recipe.apply(self.settings)
        way = way_of(self._ways, settings, recipe.sharing)
        trial = payload.get("trial", False)
        sharing = way.client(self.data, recipe, settings, self._secure, trial)
        if payload.get("test"):
            sharing.show_test(self.data)
        return sharing

    def _last_round(self, stage: str) -> int | None:
        """The last round of a training that is here, present or parked."""
        if stage == self._stage and self._sharing is not None:
            return self._round
        return self._parked[stage].round if stage in self._parked else None

    def make_room(self, payload: Payload) -> None:
        """Before another training has its turn: keep the present one or not, and forget others."""
        self._ahead, self._exchanged = {}, (0, -1)
        if payload.get("park") and self._sharing is not None:
            parked = Parked(self._recipe, self._sharing, self.coder, self._round)
            self._parked[self._stage] = parked
        if "park" in payload:
            self._recipe, self._sharing = {}, None
        for stage in payload.get("forget", ()):
            self._parked.pop(stage, None)


class RoundEngine(Saved):
    """The server half of the round engine: one training, from fresh weights on.

    ``stage`` comes before the names of all sums, where one run trains several networks; ``totals``
    are the federation's training, validation and test nodes; ``diverged`` says of a trial whether
    it has diverged at some client.
    """

    saved = (
        "round",
        "totals",
        "parties",
        "best",
        "sharing",
        "_usual",
        "_progress",
        "_reversals",
        "_message",
        "_each",
        "reference",
        "parameters",
        "calibrates",
        "_class_weights",
        "_restarts",
    )

    def __init__(self, sharing: SharingServer, stage: str = "") -> None:
        self.sharing = sharing
        self._first_stage = stage
        self._restarts = 0
        self.round = 0
        self.totals = [0, 0, 0]
        self.best = BestRound(sharing.settings.select)
        self.parties: list[str] = []
        self.diverged = False
        self._given_up = False  # on a trial whose sums were refused
        self.parameters = 0
        #: Whether rounds are compared by the validation loss after temperature scaling.
        self.calibrates = False
        self._usual = UsualDistance()
        self._progress = Progress()
        self._reversals = ReversalCheck()
        self._sound: set[str] = set()
        self._sealed_by: tuple[str, ...] = ()
        self._message: Payload = {}
        self._each: dict[str, Payload] = {}
        self._class_weights: list[float] = []
        #: With differential privacy, the weights that the clients' updates are changes of.
        self.reference: dict[str, Any] | None = None

    @property
    def stage(self) -> str:
        """What comes before the names of the sums; another one for a training begun anew."""
        return f"{self._first_stage}anew-{self._restarts}-" if self._restarts else self._first_stage

    @property
    def out_of_patience(self) -> bool:
        """Whether the validation loss has not improved for too many rounds."""
        patience = self.sharing.settings.patience
        return bool(patience and self.best.since_lower_loss >= patience)

    @property
    def done(self) -> bool:
        """Whether all rounds are made, or the training stops early."""
        return self.round >= self.sharing.settings.rounds or self.out_of_patience

    def start(
        self,
        recipe: Recipe | None = None,
        trial: bool = False,
        each: Mapping[str, Payload] | None = None,
        room: Payload | None = None,
    ) -> None:
        """Have every client build its network, and count the nodes.

        ``recipe`` says what the run's settings do not, ``each`` what is in each client's own; in a
        trial test nodes are left alone and the network may diverge. ``room`` says whether clients
        ``park`` the training before, and which they ``forget``.
        """
        parts = recipe.to_payload() if recipe else {}
        self._message = {"stage": self.stage, **parts, **({"trial": True} if trial else {})}
        self._each = dict(each or {})
        # Who is late has not built this network, and cannot join later unless it is the run's own.
        late = self.sharing.waits_for_late and not (parts or trial or each)
        clients = self.sharing.clients
        clients.gather()
        message = {**self._message, **(room or {})}
        replies = clients.call("start", message, reply=START, each=each, wait_for_late=late).ok
        require_same_network(replies)
        self.parties = sorted(replies)
        self.parameters = max(reply.get("parameters", 0) for reply in replies.values())
        if self.sharing.settings.class_weight == "balanced":
            self.totals, labels = clients.count_labels(f"{self.stage}start", replies)
            self._class_weights = balanced_weights(labels)
        else:
            self.totals = clients.count_nodes(f"{self.stage}start", replies)
        if clients.private:
            self.reference = next(iter(replies.values()))["reference"]
        self.sharing.begin(replies)

    def go_on(self, test: bool = False, room: Payload | None = None) -> None:
        """Have the clients go on with this training, which they have parked; with ``test`` their
        figures are of test nodes too from now on, and the network is to stay.
        """
        if test:
            self._message["test"] = True
        clients, exact = self.sharing.clients, self.sharing.common_at_clients
        clients.gather()
        about = {"stage": self.stage, "round": self.round, "exact": exact, **(room or {})}
        message = {**about, **({"test": True} if test else {})}
        replies = clients.call("go_on", message, reply=GO_ON)
        if behind := [name for name, reply in replies.ok.items() if reply["behind"]]:
            self.catch_up(behind)

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self.sharing.participants(self.round)
        try:
            replies, total = self._exchange(self.round, chosen, contribute=True)
        except SumOutOfBounds as error:
            return self._refuse(error)
        row: Row = {"round": self.round, **self._judge(self.round - 1, total)}
        misled = self._watch(row.get("train_loss"), replies.ok)
        self._compare(total, replies.ok)
        row |= self.sharing.aggregate(total, replies.ok)
        row["clients"] = len(chosen & set(replies.ok))
        if misled and self._anew():
            row["anew"] = True
        key = "update" if self.sharing.one_sum else "metrics"
        row |= client_accuracies(self.sharing.clients.own_parts(replies.ok, key))
        failed = sorted({*replies.failed, *self.sharing.clients.far})
        return {**row, "failed": failed} if failed else row

    def evaluate(self) -> None:
        """Evaluate the last update too; rounds may follow."""
        self.round += 1
        try:
            _, total = self._exchange(self.round, set(), contribute=False)
        except SumOutOfBounds:
            return
        finally:
            self.sharing.skip()
        self._judge(self.round - 1, total)

    def evaluate_last(self, report: bool = True) -> Row:
        """Evaluate the last update too; no round can follow. Nobody learns the figures unless
        they ``report`` them.
        """
        try:
            _, total = self._exchange(self.round + 1, set(), contribute=False, report=report)
        except SumOutOfBounds:  # no round can follow that would leave anyone out
            self.sharing.skip()
            return {}
        return self._judge(self.round, total)

    def finish(self) -> Outcome:
        """Evaluate the last update too, then report on the best weights."""
        clients = self.sharing.clients
        self.evaluate_last(report=not clients.private)
        message: Payload = {"totals": self.totals, "stage": self.stage, **clients.session()}
        message |= self._weights_of_classes
        settled = self.sharing.settle(self.best.round == self.round)
        ending = {"stage": self.stage, "round": self.round + 2, "settles": True}
        left, boxes = self.sharing.exchange_rows({**message, **ending}, settled)
        form = CONCLUDE.having(**self.sharing.conclude_fields)
        form = form.perhaps(self.sharing.conclude_options)
        each = {**self.sharing.settle_each(), **boxes}
        replies = self._call("conclude", {**message, **left}, each, form).ok
        seconds, forms = {"seconds": SECONDS_SUM}, self.sharing.final_forms(self._most)
        forms |= {} if "session" in message else seconds
        if not clients.private:
            forms |= detail_forms(
                self.sharing.settings, self.totals, self.sharing.kinds, self._most
            )
        total = clients.total(f"{self.stage}conclude", replies, "report", forms)
        if "session" in message:
            tag = f"{self.stage}seconds-{message['session']}"
            total |= clients.total(tag, replies, "seconds", seconds)
        outcome = self.sharing.outcome(Ending(replies, total, self.totals, self.best.round))
        settings, kind = self.sharing.settings, self.sharing.result_kind
        if clients.private:
            return outcome
        return detailed(outcome, settings, total, clients.own_parts(replies, "report"), kind)

    def catch_up(self, names: Sequence[str]) -> None:
        """Bring clients up to date that missed rounds of this training, so that they go on with
        the others; nothing if it has not begun.
        """
        if self._message:
            message = {**self._message, "round": self.round}
            common = self.sharing.common_at_clients
            self.sharing.clients.catch_up(names, message, each=self._each, with_state=common)

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        self.sharing.before_checkpoint()

    def _exchange(
        self, at: int, chosen: set[str], contribute: bool, report: bool = True
    ) -> tuple[Replies, dict[str, Any]]:
        """A round's call and its sums: figures by name, and the update by name or ``sealed``."""
        sharing, clients = self.sharing, self.sharing.clients
        about = {"stage": self.stage, "round": at, "totals": self.totals, "contribute": contribute}
        about |= self._weights_of_classes
        if self.calibrates:
            about["calibrate"] = True
        if contribute and not chosen and clients.secure != "none":
            about["update"] = False
        if not report or (clients.private and contribute):
            about["report"] = False
        if sharing.reveal == "parties" and clients.secure != "none" and self._most > 1:
            about["late"] = True
        useful = sharing.foretells and clients.can_spare and chosen >= set(clients.names)
        if useful and self._progress.doubtful:
            about["foretell"] = True
        handout, form = sharing.handout(), ROUND.perhaps(sharing.round_fields)
        left, boxes = sharing.exchange_rows(about, handout)
        each = {
            name: {**one, **boxes.get(name, {})}
            for name, one in sharing.handout_each(chosen).items()
        }
        replies = self._call("round", {**left, **about}, each, form)
        if sharing.reveal == "parties":
            clients.keep_in_step("take", handout, TAKE)
        sealed_by, self._sealed_by = self._sealed_by, ()
        try:
            return replies, self._sums(at, replies)
        finally:  # only now: whoever is left out for the last round is needed to open these sums
            self._hear_of_refusals(sealed_by, replies, at)

    def _sums(self, at: int, replies: Replies) -> dict[str, Any]:
        """What the replies to a round add up to."""
        sharing, clients = self.sharing, self.sharing.clients
        total: dict[str, Any] = {}
        figures = sharing.figure_forms(self._most) | self._objective_forms
        if self.calibrates:
            figures["tempered"] = Array((len(TEMPERATURES),), -ROUNDING)
        share = sharing.share_form(self._most)
        if any("metrics" in reply for reply in replies.ok.values()):
            total |= clients.total(f"{self.stage}metrics-{at}", replies.ok, "metrics", figures)
        if any("update" in reply for reply in replies.ok.values()):
            tag = f"{self.stage}update-{at}"
            if sharing.reveal == "parties":
                total["sealed"] = clients.seal(tag, replies.ok, "update", {"share": share})
                self._sealed_by = tuple(replies.ok)
            else:
                forms = {"share": share, **sharing.update_forms()}
                forms |= figures if sharing.one_sum else {}
                about = (forms, self._figure_names, sharing.center())
                summed = clients.total(tag, replies.ok, "update", *about)
                self._require_near(tag, summed, replies)
                total |= self._absolute(summed)
        return total

    @property
    def _figure_names(self) -> set[str]:
        """What is a figure in a sum of figures and update."""
        names = {*self.sharing.figure_forms(self._most), *self._objective_forms}
        return {*names, "diverged", "tempered"}

    @property
    def _objective_forms(self) -> dict[str, Form]:
        """What the sums for the objective can be."""
        sharing = self.sharing
        return objective_forms(sharing.settings, self.totals, sharing.kinds, self._most)

    @property
    def _weights_of_classes(self) -> Payload:
        """What clients are told of the weights of the classes, if the loss is balanced."""
        return {"class_weights": self._class_weights} if self._class_weights else {}

    @property
    def _reports_its_aim(self) -> bool:
        """Whether clients descend the training loss that they report, and nothing besides."""
        return not getattr(self.sharing.settings, "consistency", 0.0)

    @property
    def _on_trial(self) -> bool:
        """Whether the network may diverge, and is not to stay so far."""
        return "trial" in self._message and "test" not in self._message

    @property
    def _most(self) -> float:
        """What shares of all nodes add up to at most: more than 1 with who came too late to be
        counted.
        """
        return 1.0 if set(self.sharing.clients.names) <= set(self.parties) else math.inf

    def _hear_of_refusals(self, sealed_by: tuple[str, ...], replies: Replies, at: int) -> None:
        """The clients open the summed update themselves: what most of them made of the last."""
        self._sound = set(replies.ok)
        if not sealed_by or self.sharing.clients.secure == "none":
            return
        refusals = sum("refused" in reply for reply in replies.ok.values())
        if 2 * refusals <= len(replies.ok):
            self._sound &= set(sealed_by)
            return
        self._sound = set()
        reason = "its update is out of bounds"
        self._spoiled(SumOutOfBounds(f"{self.stage}update-{at - 1}", reason, sealed_by))

    def _spoiled(self, error: SumOutOfBounds) -> None:
        """Look for who did it; where nobody can be spared, a network on trial has come to nothing,
        whether by itself or by a client, and the next one has its turn.
        """
        try:
            self.sharing.clients.spoiled(error)
        except SumOutOfBounds:
            if not self._on_trial:
                raise
            self.diverged = self._given_up = True

    def _watch(self, loss: float | None, replies: Mapping[str, Payload]) -> bool:
        """Suspect a client when the training loss does not fall as it should, or let those off
        with whom it does. A network on trial may diverge; and where the server sees single updates
        it judges by them.

        Returns:
            Whether a client is left out by it, which has misled the training until now.
        """
        clients, wrong = self.sharing.clients, ""
        before = set(clients.dropped)
        judged_by_loss = clients.secure != "none" and not self._on_trial and self._reports_its_aim
        if loss is not None and judged_by_loss:
            about = (foretold_by(replies), tuple(replies), clients.suspecting)
            judged = self._progress.observe(loss, *about)
            if judged is None:
                return False
            wrong = judged
        if not wrong:
            clients.cleared(self._sound)
        elif clients.can_spare:
            tag = f"{self.stage}metrics-{self.round}"
            clients.spoiled(SumOutOfBounds(tag, wrong, tuple(replies), certain=False))
        return self._progress.searching and set(clients.dropped) != before

    def _anew(self) -> bool:
        """Begin the training anew, if enough of its rounds are left: weights that a client has led
        astray for many rounds stay in a bad place when it is gone.

        The initial weights are other ones, so that no two sums tell what the client that is left
        out added to one of them. Nodes are not counted again, for the same reason.
        """
        sharing, left = self.sharing, self.sharing.settings.rounds - self.round
        if not sharing.begins_anew or left < _WORTH_IT * sharing.settings.rounds:
            return False
        if sharing.reveal == "parties":  # a message for the weights that are given up
            sharing.skip()
        self._restarts += 1
        recipe = Recipe.from_payload(self._message)
        other = sharing.settings.init + self._restarts * _OTHER_DRAWS
        recipe = recipe.model_copy(update={"settings": {**recipe.settings, "init": other}})
        self._message = {**self._message, **recipe.to_payload(), "stage": self.stage}
        replies = sharing.clients.call("start", self._message, reply=START, each=self._each).ok
        self.parties = sorted({*self.parties, *replies})
        self.best = BestRound(sharing.settings.select)
        self._usual, self._progress = UsualDistance(), Progress()
        self._sealed_by = ()
        sharing.begin(replies)
        return True

    def _compare(self, total: Mapping[str, Any], replies: Mapping[str, Payload]) -> None:
        """Leave clients out whose updates go against what they report, where the server sees both;
        a client alone harms nobody else, and a network on trial may diverge: its steps are followed
        all the same, since they go on when it is to stay.
        """
        clients, center = self.sharing.clients, self.sharing.center()
        if clients.secure != "none" or self.diverged or center is None or len(replies) < 2:
            return
        step = self.sharing.step_of(total)
        if step is None or self._on_trial or not self._reports_its_aim:
            self._reversals.interrupt()
            return
        parts = clients.own_parts(replies, "update")
        near = {name: average(part) for name, part in parts.items() if name not in clients.far}
        start = flattened(center) if center else 0.0
        sent = {name: flattened(one) - start for name, one in near.items() if one}
        losses = train_losses(clients.own_parts(replies, "metrics"))
        reason = "its updates go the opposite way of what lowers its own loss"
        reversed_by = self._reversals.observe(sent, losses, step, gradients=not center)
        left_out = sum(one == reason for one in clients.dropped.values())
        if 2 * (left_out + len(reversed_by)) < left_out + len(replies):  # most cannot be wrong
            clients.leave_out(dict.fromkeys(reversed_by, reason), len(replies))

    def _require_near(self, tag: str, total: Mapping[str, Any], replies: Replies) -> None:
        """Refuse an average that is farther away than training takes it, in the secure modes."""
        center = self.sharing.center()
        clients = self.sharing.clients
        if center is None or clients.secure == "none" or clients.private:
            return
        names = total.keys() - self._figure_names
        mean = average({name: total[name] for name in names})
        size = (
            model_distance(center, {}) if center else math.sqrt(sum(v.size for v in mean.values()))
        )
        if mean and not self._usual.accepts(model_distance(mean, center), size):
            raise SumOutOfBounds(tag, "the average is too far away", tuple(replies.ok))

    def _refuse(self, error: SumOutOfBounds) -> Row:
        """A round whose sums are nonsense: nothing changes but who is in the next one."""
        self._spoiled(error)
        self.sharing.skip()
        self._reversals.interrupt()
        self._progress.interrupt()
        row: Row = {"round": self.round, "refused": str(error)}
        row |= dict.fromkeys(("train_loss", "val_accuracy", "test_accuracy"))
        return {**row, "clients": len(self.sharing.clients.names)}

    def _absolute(self, total: dict[str, Any]) -> dict[str, Any]:
        """A summed update with the weights that it is the change of, which it replaces."""
        if self.reference:
            share = total["share"]
            total |= {name: total[name] + share * one for name, one in self.reference.items()}
            mean = average({name: total[name] for name in ("share", *self.reference)})
            self.reference = mean or self.reference
        return total

    def _judge(self, at: int, total: dict[str, Any]) -> Row:
        """Columns of the weights just evaluated, which may be the best so far.

        Where nobody reports, the last weights are taken for the best.
        """
        if "metrics" not in total:
            self.best.round = at
            self.sharing.keep(True)
            return dict.fromkeys(_UNREPORTED)
        flags, tempered = total.pop("diverged", 0.0), total.pop("tempered", None)
        self.diverged = self._given_up or bool(np.any(flags > 0.5))
        row, metrics = self.sharing.judge(total, self.totals)
        for name in self._objective_forms:  # no part of an update
            total.pop(name, None)
        if tempered is not None:
            metrics = replace(metrics, val_loss=float(np.min(tempered)))
        self.sharing.keep(self.best.update(at, metrics))
        return row

    def _call(
        self, op: str, payload: Payload, each: Mapping[str, Payload] | None, form: Form
    ) -> Replies:
        late, call = self.sharing.waits_for_late, self.sharing.clients.call
        return call(op, payload, reply=form, each=each, wait_for_late=late)


def require_same_network(replies: Mapping[str, Payload]) -> None:
    """Refuse clients whose networks from outside have other parameters than the others' have.

    Raises:
        UserError: It names the clients.
    """
    prints = {name: reply.get("network", "") for name, reply in replies.items()}
    usual, _ = Counter(prints.values()).most_common(1)[0]
    if odd := [name for name, one in prints.items() if one != usual]:
        whose = f"the model of {', '.join(odd)} has other parameters than that of the other clients"
        raise UserError(f"{whose}: all of them need the same code, of sizes that do not vary")
