"""The client half of the round engine: what a client answers to the calls of a training."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Context, Party, Refused, require_later
from autofgl.federation.payload import Payload, decode, encode
from autofgl.runtime.bounds import raised_vote
from autofgl.runtime.client_data import ClientData
from autofgl.runtime.compression import Encoded, UpdateCoder
from autofgl.runtime.details import without_objective
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.rows import RowExchange
from autofgl.runtime.sharing import Sharing, SharingClient, way_of
from autofgl.runtime.state import restore_state, saved_state
from autofgl.runtime.summing import Summing
from autofgl.runtime.trainings import Trainings

#: What all clients that only evaluate get alike of a round's message.
_BROADCAST = ("stage", "round", "totals", "contribute", "class_weights", "calibrate")


class RoundClient(Summing, Party):
    """The client half of the round engine; a recipe that names no way takes the first.

    It trains one network after the other. Where a search lets several networks compete, a training
    is parked while others have their turn, and goes on later.
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
        self.trainings = Trainings(self.build, self._new_coder)
        self._late = False  # whether the last sum is of clients that were not all counted
        self._rows = RowExchange(context)
        self._exchanged = (0, -1)  # round and number of the last exchange
        self._ahead: Payload = {}  # what was handed out before the round that it is for
        self._refused: Payload = {}

    @property
    def sharing(self) -> SharingClient:
        """The client half of the present way of sharing."""
        return self.trainings.sharing

    @property
    def coder(self) -> UpdateCoder:
        """What makes the updates of the present training smaller on their way."""
        return self.trainings.coder

    @property
    def stage(self) -> str:
        """What comes before the names of the sums of the present training."""
        return self.trainings.stage

    def permit(self, op: str, payload: Payload) -> None:
        """Refuse a stage or a round that was there before, and handouts that nobody needs."""
        if op == "take" and self.sharing.reveal != "parties":
            raise Refused("operation 'take' is for sums that clients open")
        if op in ("round", "conclude", "exchange") and payload["stage"] != self.stage:
            raise Refused(f"stage '{payload['stage']}' is not the present one")
        if op == "round":
            require_later("round", payload["round"], self.trainings.round)
        if op == "exchange":
            require_later("round", payload["round"], self.trainings.round)
            require_later("exchange", (payload["round"], payload["exchange"]), self._exchanged)
        last = self.trainings.last_round(payload["stage"]) if op == "catch_up" else None
        if (
            op in ("start", "catch_up")
            and payload["stage"] in self.trainings.stages
            and last is None
        ):
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
        counts = self.count(f"{self.stage}start", self.data.counts(), self.label_counts())
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
        last = self.trainings.last_round(payload["stage"])
        if last is None or (payload["exact"] and last != payload["round"]):
            return {"behind": True}
        self.trainings.take_up(payload["stage"])
        if payload.get("test"):
            self.trainings.recipe = {**self.trainings.recipe, "test": True}
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
        if at == 0:
            self._ahead = payload
            self._weigh_classes(payload)
        self._exchanged = (payload["round"], at)
        rows, back = self.sharing.rows_to_send(at, self._ahead), self.sharing.goes_back(at)
        return {"boxes": self._rows.seal(self._row_tag(at), rows, back)}

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
        back = self.sharing.goes_back(at)
        for place, rows in self._rows.open(self._row_tag(at), boxes, width, back):
            self.sharing.take_rows(at, place, rows)

    def _row_tag(self, at: int) -> str:
        return f"{self.stage}{self._exchanged[0]}-{at}"

    def round(self, payload: Payload) -> Payload:
        """Take in what is new, evaluate it, and contribute to the next update if asked to.

        Payload: what the way of sharing hands out; ``stage``; ``round``; ``totals``, the
        federation's node counts; ``train``; ``contribute``, false for an evaluation alone;
        ``update``, false if nobody trains; ``report``, false where differential privacy leaves
        figures for the end. With a secure mode a client that does not train contributes zeros:
        masks need all parties.
        """
        sharing, tag = self.sharing, f"{self.stage}{{}}-{payload['round']}"
        self.trainings.round = payload["round"]
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
        if "scale" in update and grid is not None:
            share = float(update["share"]) or 1.0
            sent = {name: one / share for name, one in rounded.items() if one is not update[name]}
            rounded["scale"] = raised_vote(update["scale"], sent)
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
        tag = f"{self.stage}conclude"
        if self._secure == "none":
            protected = self.contribute(tag, {**report, **seconds})
            return {"report": protected, "own": self.own_figures(), **sharing.about()}
        times = self.contribute(f"{self.stage}seconds-{payload['session']}", seconds)
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
        self.trainings.parked.pop(payload["stage"], None)
        if payload["stage"] != self.stage or not self.trainings.present:
            self.make_room({"park": True})  # it may be that this one goes on later
            self._enter(payload)
        self.trainings.round = payload["round"]
        if "state" in payload:
            self._load_common(decode(self.sums.unwrap(self._place, payload["state"])))
        return {}

    def state(self) -> Payload:
        """What its trainings have, and what a method's own client has besides."""
        state = {**saved_state(self, ("phase", *self.saved)), **self.trainings.state()}
        return {**state, "noise": self.private.record.state()} if self.private else state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.trainings.load_state(state)
        restore_state(self, ("phase", *self.saved), state)
        if self.private is not None:
            self.private.record.load_state(state["noise"])

    def _new_coder(self) -> UpdateCoder:
        compress = getattr(self.settings, "compression", "none")
        active = self.private is None and (self._secure != "none" or compress != "none")
        return UpdateCoder(self.sums, compress, active, self.data.seed, self.data.graph.name)

    def join_stage(self, payload: Payload) -> None:
        """Take up a ``stage`` at the ``round`` where the others are, with the ``state`` of one."""
        if payload["stage"] != self.stage:
            self.make_room({"park": True})
        self.trainings.enter(payload["stage"])
        self.trainings.round = payload["round"]
        self._load_common(decode(self.sums.unwrap(self._place, payload["state"])))

    def label_counts(self) -> Any:
        """Training nodes of each class, if the loss is to be balanced by them."""
        return self.data.label_counts() if self.settings.class_weight == "balanced" else None

    def _told(self, figures: dict[str, Any]) -> dict[str, Any]:
        """With differential privacy the flag of a trial says that test nodes are left alone, and
        nothing else: a network that is to stay has none.
        """
        if self.private is not None and self.trainings.recipe.get("test"):
            figures = {name: value for name, value in figures.items() if name != "diverged"}
        return figures

    @property
    def _place(self) -> str:
        return f"{self.stage}{self.trainings.round}"

    def _weigh_classes(self, payload: Payload) -> None:
        """Take the weights of the classes, if the server has told any."""
        if "class_weights" in payload:
            self.sharing.weigh_classes(payload["class_weights"])

    def _common(self) -> Payload:
        return {**saved_state(self, self.common), **self.trainings.common_state()}

    def _load_common(self, state: Payload) -> None:
        self.trainings.load_common(state)
        restore_state(self, self.common, state)

    def _enter(self, payload: Payload) -> None:
        given = ("sharing", "network", "settings", "trial", "test", "teacher")
        recipe = {key: payload[key] for key in given if key in payload}
        self.trainings.begin(payload["stage"], recipe)

    def build(self, payload: Payload) -> SharingClient:
        """What a client has for a recipe, at the weights that all begin with."""
        recipe = Recipe.from_payload(payload)
        settings = recipe.apply(self.settings)
        way = way_of(self._ways, settings, recipe.sharing)
        trial = payload.get("trial", False)
        sharing = way.client(self.data, recipe, settings, self._secure, trial)
        if payload.get("test"):
            sharing.show_test(self.data)
        self.prepare(sharing, payload)
        return sharing

    def prepare(self, sharing: SharingClient, payload: Payload) -> None:
        """What a method's own client adds to what it has for a recipe."""

    def make_room(self, payload: Payload) -> None:
        """Before another training has its turn; see :meth:`Trainings.make_room`."""
        self._ahead, self._exchanged = {}, (0, -1)
        self.trainings.make_room(payload)
