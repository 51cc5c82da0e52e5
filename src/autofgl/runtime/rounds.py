"""The round engine: one place that makes the rounds of every training.

It counts nodes, hands out what is new, evaluates on the way, sums figures and updates, keeps the
best round, counts rounds without improvement, and resumes bit for bit. What differs between ways of
learning together is in two small halves, at the server and at the client
(:mod:`autofgl.runtime.sharing`).

A round evaluates the weights that it begins with and makes the next ones, in a single call to each
client: the figures of round t are those of the weights after t-1 updates.
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Context, Party, Replies
from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import (
    SumOutOfBounds,
    UsualDistance,
    distance,
)
from autofgl.runtime.clients import Summing, average
from autofgl.runtime.local_model import ClientData
from autofgl.runtime.metrics import (
    BestRound,
    client_accuracies,
)
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import SECONDS_SUM, SUM, TAKE, Form, Record, Truth
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.state import Saved, restore_state, saved_state

#: What a client answers to ``start``, to ``round`` and to ``conclude``; the way of sharing adds its
#: own. ``refused`` says that the last summed update was out of bounds and not taken in.
START = Record({"counts": SUM})
ROUND = Record({}).perhaps({"metrics": SUM, "update": SUM, "refused": Truth()})
CONCLUDE = Record({"report": SUM})


class RoundClient(Summing, Party):
    """The client half of the round engine; a recipe that names no way takes the first."""

    operations: ClassVar[frozenset[str]] = Summing.operations | {
        "start", "round", "take", "conclude", "export",
    }  # fmt: skip
    #: Attributes that a checkpoint has, besides the recipe and what its training has.
    saved: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        context: Context,
        data: ClientData,
        ways: Mapping[str, Sharing],
        settings: Any,
        secure: str,
    ) -> None:
        super().__init__(context, secure, settings.secure_threshold)
        self.data = data
        data.inputs(settings.normalize_features)  # laid out now: a call has a time limit
        self.settings = settings
        self._ways = ways
        self._secure = secure
        self._recipe: Payload = {}
        self._sharing: SharingClient | None = None

    @property
    def sharing(self) -> SharingClient:
        """The client half of the present way of sharing; the run's own before any recipe."""
        if self._sharing is None:
            self._adopt(self._recipe)
        assert self._sharing is not None
        return self._sharing

    def start(self, payload: Payload) -> Payload:
        """Build the network of a recipe, at weights that are the same everywhere; count own nodes.

        Payload: ``stage``, put before the names of all sums; a recipe's ``sharing``, ``network``
        and ``settings``; ``trial``.
        """
        given = ("sharing", "network", "settings", "trial")
        self._adopt({key: payload[key] for key in given if key in payload})
        return {"counts": self.count(f"{payload['stage']}start", self.data.counts())}

    def round(self, payload: Payload) -> Payload:
        """Take in what is new, evaluate it, and contribute to the next update if asked to.

        Payload: what the way of sharing hands out; ``stage``; ``round``; ``totals``, the
        federation's node counts; ``train``; ``contribute``, false for an evaluation alone.
        With a secure mode a client that does not train contributes zeros: masks need all parties.
        """
        sharing, tag = self.sharing, f"{payload['stage']}{{}}-{payload['round']}"
        refused = self.take(payload)
        figures = sharing.figures(payload)
        trains = payload["contribute"] and (payload.get("train", True) or self._secure != "none")
        update = sharing.update(payload) if trains else {}
        reply = {**refused, **(sharing.after(payload) if payload["contribute"] else {})}
        if sharing.one_sum:
            kind = "update" if update else "metrics"
            return {**reply, kind: self.sums.protect(tag.format(kind), {**figures, **update})}
        if figures:
            reply["metrics"] = self.sums.protect(tag.format("metrics"), figures)
        if update:
            sent = self.sums.protect(tag.format("update"), update, reveal=sharing.reveal)
            reply["update"] = sent
        return reply

    def take(self, payload: Payload) -> Payload:
        """Take in what is new, without a round; say so if it is refused."""
        opened = self.sums.open(payload["gradient"]) if "gradient" in payload else {}
        refused = bool(opened) and self._secure != "none" and not self.sharing.accepts(opened)
        self.sharing.take(payload, {} if refused else opened)
        return {"refused": True} if refused else {}

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final weights."""
        sharing = self.sharing
        sharing.settle(payload)
        seconds = np.array([sharing.local.inference_seconds(), 1.0])
        report = {**sharing.final_figures(payload), "seconds": seconds}
        own = sharing.describe(self.data.graph) if self._secure == "none" else {}
        protected = self.sums.protect(f"{payload['stage']}conclude", report)
        return {"report": protected, "own": own, **sharing.about()}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The weights that the way of sharing lets out."""
        return self.sharing.export()

    def state(self) -> Payload:
        """The recipe, what its training has, and what a method's own client has besides."""
        return saved_state(self, ("_recipe", "_sharing", *self.saved))

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._recipe, self._sharing = state["recipe"], None
        if "sharing" in state:
            self.sharing.load_state(state["sharing"])
        restore_state(self, self.saved, state)

    def _adopt(self, payload: Payload) -> None:
        recipe = Recipe.from_payload(payload)
        way = self._ways[recipe.sharing] if recipe.sharing else next(iter(self._ways.values()))
        settings = recipe.apply(self.settings)
        trial = payload.get("trial", False)
        self._recipe = payload
        self._sharing = way.client(self.data, recipe, settings, self._secure, trial)


class RoundEngine(Saved):
    """The server half of the round engine: one training, from fresh weights on.

    ``stage`` comes before the names of all sums, where one run trains several networks; ``totals``
    are the federation's training, validation and test nodes; ``diverged`` says of a trial whether
    it has diverged at some client.
    """

    saved = ("round", "totals", "parties", "best", "sharing", "_usual")

    def __init__(self, sharing: SharingServer, stage: str = "") -> None:
        self.sharing = sharing
        self.stage = stage
        self.round = 0
        self.totals = [0, 0, 0]
        self.best = BestRound(sharing.settings.select)
        self.parties: list[str] = []
        self.diverged = False
        self._usual = UsualDistance()
        self._sealed_by: tuple[str, ...] = ()

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
    ) -> None:
        """Have every client build its network, and count the nodes.

        ``recipe`` says what the run's settings do not, ``each`` what is in each client's own; in a
        trial test nodes are left alone and the network may diverge.
        """
        parts = recipe.to_payload() if recipe else {}
        message: Payload = {"stage": self.stage, **parts, **({"trial": True} if trial else {})}
        # Who is late has not built this network, and cannot join later unless it is the run's own.
        late = self.sharing.waits_for_late and not (parts or trial or each)
        clients = self.sharing.clients
        replies = clients.call("start", message, reply=START, each=each, wait_for_late=late).ok
        self.parties = sorted(replies)
        self.totals = clients.count_nodes(f"{self.stage}start", replies)
        self.sharing.begin(replies)

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self.sharing.participants(self.round)
        try:
            replies, total = self._exchange(self.round, chosen, contribute=True)
        except SumOutOfBounds as error:
            return self._refuse(error)
        row: Row = {"round": self.round, **self._judge(self.round - 1, total)}
        row |= self.sharing.aggregate(total, replies.ok)
        row["clients"] = len(chosen & set(replies.ok))
        key = "update" if self.sharing.one_sum else "metrics"
        row |= client_accuracies(self.sharing.clients.own_parts(replies.ok, key))
        failed = sorted({*replies.failed, *self.sharing.clients.far})
        return {**row, "failed": failed} if failed else row

    def evaluate_last(self) -> Row:
        """Evaluate the last update too; no round can follow."""
        try:
            _, total = self._exchange(self.round + 1, set(), contribute=False)
        except SumOutOfBounds:  # no round can follow that would leave anyone out
            self.sharing.skip()
            return {}
        return self._judge(self.round, total)

    def finish(self) -> Outcome:
        """Evaluate the last update too, then report on the best weights."""
        self.evaluate_last()
        message = {"totals": self.totals, "stage": self.stage}
        message |= self.sharing.settle(self.best.round == self.round)
        form = CONCLUDE.having(**self.sharing.conclude_fields)
        replies = self._call("conclude", message, self.sharing.settle_each(), form).ok
        forms = {**self.sharing.final_forms(self._most), "seconds": SECONDS_SUM}
        total = self.sharing.clients.total(f"{self.stage}conclude", replies, "report", forms)
        return self.sharing.outcome(Ending(replies, total, self.totals, self.best.round))

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        self.sharing.before_checkpoint()

    def _exchange(
        self, at: int, chosen: set[str], contribute: bool
    ) -> tuple[Replies, dict[str, Any]]:
        """A round's call and its sums: figures by name, and the update by name or ``sealed``."""
        sharing, clients = self.sharing, self.sharing.clients
        about = {"stage": self.stage, "round": at, "totals": self.totals, "contribute": contribute}
        handout, form = sharing.handout(), ROUND.perhaps(sharing.round_fields)
        replies = self._call("round", {**handout, **about}, sharing.handout_each(chosen), form)
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
        figures, share = sharing.figure_forms(self._most), sharing.share_form(self._most)
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
                total |= summed
        if sharing.reveal != "parties" or clients.secure == "none":
            clients.cleared(replies.ok)
        return total

    @property
    def _figure_names(self) -> set[str]:
        """What is a figure in a sum of figures and update."""
        return {*self.sharing.figure_forms(self._most), "diverged"}

    @property
    def _most(self) -> float:
        """What shares of all nodes add up to at most: more than 1 with who came too late to be
        counted.
        """
        return 1.0 if set(self.sharing.clients.names) <= set(self.parties) else math.inf

    def _hear_of_refusals(self, sealed_by: tuple[str, ...], replies: Replies, at: int) -> None:
        """The clients open the summed update themselves: what most of them made of the last."""
        if not sealed_by or self.sharing.clients.secure == "none":
            return
        refusals = sum("refused" in reply for reply in replies.ok.values())
        if 2 * refusals > len(replies.ok):
            reason = "its update is out of bounds"
            error = SumOutOfBounds(f"{self.stage}update-{at - 1}", reason, sealed_by)
            self.sharing.clients.spoiled(error)
        else:
            self.sharing.clients.cleared(sealed_by)

    def _require_near(self, tag: str, total: Mapping[str, Any], replies: Replies) -> None:
        """Refuse an average that is farther away than training takes it, in the secure modes."""
        center = self.sharing.center()
        if center is None or self.sharing.clients.secure == "none":
            return
        names = total.keys() - self._figure_names
        mean = average({name: total[name] for name in names})
        size = distance(center, {}) if center else math.sqrt(sum(v.size for v in mean.values()))
        if mean and not self._usual.accepts(distance(mean, center), size):
            raise SumOutOfBounds(tag, "the average is too far away", tuple(replies.ok))

    def _refuse(self, error: SumOutOfBounds) -> Row:
        """A round whose sums are nonsense: nothing changes but who is in the next one."""
        self.sharing.clients.spoiled(error)
        self.sharing.skip()
        row: Row = {"round": self.round, "refused": str(error)}
        row |= dict.fromkeys(("train_loss", "val_accuracy", "test_accuracy"))
        return {**row, "clients": len(self.sharing.clients.names)}

    def _judge(self, at: int, total: dict[str, Any]) -> Row:
        """Columns of the weights just evaluated, which may be the best so far."""
        self.diverged = bool(np.any(total.pop("diverged", 0.0) > 0.5))
        row, metrics = self.sharing.judge(total, self.totals)
        self.sharing.keep(self.best.update(at, metrics))
        return row

    def _call(
        self, op: str, payload: Payload, each: Mapping[str, Payload] | None, form: Form
    ) -> Replies:
        late, call = self.sharing.waits_for_late, self.sharing.clients.call
        return call(op, payload, reply=form, each=each, wait_for_late=late)
