"""The round engine: one place that makes the rounds of every training.

It counts nodes, hands out what is new, evaluates on the way, sums figures and updates, keeps the
best round, counts rounds without improvement, and resumes bit for bit. What differs between ways of
learning together is in two small halves, at the server and at the client
(:mod:`autofgl.runtime.sharing`).

A round evaluates the weights that it begins with and makes the next ones, in a single call to each
client: the figures of round t are those of the weights after t-1 updates.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from autofgl.federation.party import Context, Party, Replies
from autofgl.federation.payload import Payload
from autofgl.runtime.clients import Summing, average
from autofgl.runtime.local_model import ClientData
from autofgl.runtime.metrics import (
    BestRound,
    client_accuracies,
)
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.sharing import Ending, Sharing, SharingClient, SharingServer
from autofgl.runtime.state import Saved, restore_state, saved_state

#: Columns of the history without a value where nobody reports figures.
_UNREPORTED = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


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
        super().__init__(context, secure, settings.secure_threshold, settings)
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
        counts = self.count(f"{payload['stage']}start", self.data.counts())
        reference = {"reference": self.sharing.reference()} if self.private else {}
        return {"counts": counts, **reference}

    def round(self, payload: Payload) -> Payload:
        """Take in what is new, evaluate it, and contribute to the next update if asked to.

        Payload: what the way of sharing hands out; ``stage``; ``round``; ``totals``, the
        federation's node counts; ``train``; ``contribute``, false for an evaluation alone;
        ``report``, false where differential privacy leaves figures for the end.
        With a secure mode a client that does not train contributes zeros: masks need all parties.
        """
        sharing, tag = self.sharing, f"{payload['stage']}{{}}-{payload['round']}"
        self.take(payload)
        figures = sharing.figures(payload)
        figures = figures if payload.get("report", True) else {}
        reference = sharing.reference() if self.private else {}
        trains = payload["contribute"] and (payload.get("train", True) or self._secure != "none")
        update = sharing.update(payload) if trains else {}
        reply = sharing.after(payload) if payload["contribute"] else {}
        if sharing.one_sum and (figures or update):
            kind = "update" if update else "metrics"
            sent = self.contribute(tag.format(kind), figures, update, reference=reference)
            return {**reply, kind: sent}
        if figures:
            reply["metrics"] = self.contribute(tag.format("metrics"), figures, {})
        if update:
            sent = self.contribute(
                tag.format("update"), {}, update, reveal=sharing.reveal, reference=reference
            )
            reply["update"] = sent
        return reply

    def take(self, payload: Payload) -> Payload:
        """Take in what is new, without a round."""
        opened = self.sums.open(payload["gradient"]) if "gradient" in payload else {}
        self.sharing.take(payload, opened)
        return {}

    def conclude(self, payload: Payload) -> Payload:
        """Evaluate the final weights."""
        sharing = self.sharing
        sharing.settle(payload)
        seconds = np.array([sharing.local.inference_seconds(), 1.0])
        report = {**sharing.final_figures(payload), "seconds": seconds}
        own = sharing.describe(self.data.graph) if self._secure == "none" else {}
        protected = self.contribute(f"{payload['stage']}conclude", report, {})
        return {"report": protected, "own": own, **sharing.about()}

    def export(self, payload: Payload) -> Payload:  # noqa: ARG002
        """The weights that the way of sharing lets out."""
        return self.sharing.export()

    def state(self) -> Payload:
        """The recipe, what its training has, and what a method's own client has besides."""
        state = saved_state(self, ("_recipe", "_sharing", *self.saved))
        return {**state, "noise": self.private.record.state()} if self.private else state

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self._recipe, self._sharing = state["recipe"], None
        if "sharing" in state:
            self.sharing.load_state(state["sharing"])
        restore_state(self, self.saved, state)
        if self.private is not None:
            self.private.record.load_state(state["noise"])

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

    saved = ("round", "totals", "parties", "best", "sharing", "reference")

    def __init__(self, sharing: SharingServer, stage: str = "") -> None:
        self.sharing = sharing
        self.stage = stage
        self.round = 0
        self.totals = [0, 0, 0]
        self.best = BestRound(sharing.settings.select)
        self.parties: list[str] = []
        self.diverged = False
        #: With differential privacy, the weights that the clients' updates are changes of.
        self.reference: dict[str, Any] | None = None

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
        replies = clients.call("start", message, each=each, wait_for_late=late).ok
        self.parties = sorted(replies)
        self.totals = clients.count_nodes(f"{self.stage}start", replies)
        if clients.private:
            self.reference = next(iter(replies.values()))["reference"]
        self.sharing.begin(replies)

    def step(self) -> Row:
        """One round."""
        self.round += 1
        chosen = self.sharing.participants(self.round)
        replies, total = self._exchange(self.round, chosen, contribute=True)
        row: Row = {"round": self.round, **self._judge(self.round - 1, total)}
        row |= self.sharing.aggregate(total, replies.ok)
        row["clients"] = len(chosen & set(replies.ok))
        key = "update" if self.sharing.one_sum else "metrics"
        row |= client_accuracies(self.sharing.clients.own_parts(replies.ok, key))
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def evaluate_last(self, report: bool = True) -> Row:
        """Evaluate the last update too; no round can follow. Nobody learns the figures unless
        they ``report`` them.
        """
        _, total = self._exchange(self.round + 1, set(), contribute=False, report=report)
        return self._judge(self.round, total)

    def finish(self) -> Outcome:
        """Evaluate the last update too, then report on the best weights."""
        self.evaluate_last(report=not self.sharing.clients.private)
        message = {"totals": self.totals, "stage": self.stage}
        message |= self.sharing.settle(self.best.round == self.round)
        replies = self._call("conclude", message, self.sharing.settle_each()).ok
        total = self.sharing.clients.total(f"{self.stage}conclude", replies, "report")
        return self.sharing.outcome(Ending(replies, total, self.totals, self.best.round))

    def before_checkpoint(self) -> None:
        """Let the clients take in what only the present keys can open."""
        self.sharing.before_checkpoint()

    def _exchange(
        self, at: int, chosen: set[str], contribute: bool, report: bool = True
    ) -> tuple[Replies, dict[str, Any]]:
        """A round's call and its sums: figures by name, and the update by name or ``sealed``."""
        sharing, clients = self.sharing, self.sharing.clients
        about = {"stage": self.stage, "round": at, "totals": self.totals, "contribute": contribute}
        if not report or (clients.private and contribute):
            about["report"] = False
        replies = self._call("round", {**sharing.handout(), **about}, sharing.handout_each(chosen))
        total: dict[str, Any] = {}
        if any("metrics" in reply for reply in replies.ok.values()):
            total |= clients.total(f"{self.stage}metrics-{at}", replies.ok, "metrics")
        if any("update" in reply for reply in replies.ok.values()):
            tag = f"{self.stage}update-{at}"
            if sharing.reveal == "parties":
                total["sealed"] = clients.seal(tag, replies.ok, "update")
            else:
                total |= self._absolute(clients.total(tag, replies.ok, "update"))
        return replies, total

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
        self.diverged = bool(np.any(total.pop("diverged", 0.0) > 0.5))
        row, metrics = self.sharing.judge(total, self.totals)
        self.sharing.keep(self.best.update(at, metrics))
        return row

    def _call(self, op: str, payload: Payload, each: Mapping[str, Payload] | None) -> Replies:
        late = self.sharing.waits_for_late
        return self.sharing.clients.call(op, payload, each=each, wait_for_late=late)
