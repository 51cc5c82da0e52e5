"""The round engine: one place that makes the rounds of every training.

It counts nodes, hands out what is new, evaluates on the way, sums figures and updates, keeps the
best round, counts rounds without improvement, and resumes bit for bit. What differs between ways of
learning together is in two small halves, at the server and at the client
(:mod:`autofgl.runtime.sharing`). Here is the server's half of the engine; the client's is
:mod:`autofgl.runtime.round_client`.

A round evaluates the weights that it begins with and makes the next ones, in a single call to each
client: the figures of round t are those of the weights after t-1 updates.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autofgl.errors import UserError
from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import ROUNDING, SumOutOfBounds
from autofgl.runtime.details import detail_forms, detailed, objective_forms
from autofgl.runtime.metrics import BestRound, client_accuracies
from autofgl.runtime.outcome import Outcome, Row
from autofgl.runtime.oversight import Oversight
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.replies import (
    CONCLUDE,
    GO_ON,
    ROUND,
    SECONDS_SUM,
    START,
    TAKE,
    Array,
    Form,
)
from autofgl.runtime.sharing import Ending, SharingServer
from autofgl.runtime.state import Saved
from autofgl.runtime.summing import average
from autofgl.tasks.losses import TEMPERATURES, balanced_weights

#: A training begins anew while at least such a part of its rounds is left.
_WORTH_IT = 1 / 3
#: Beyond all draws of the initial weights that searches use: no sum is to be of weights that others
#: were of, with other clients.
_OTHER_DRAWS = 1_000_000
#: Columns of the history without a value where nobody reports figures.
_UNREPORTED = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


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
        self.parameters = 0
        #: Whether rounds are compared by the validation loss after temperature scaling.
        self.calibrates = False
        self.oversight = Oversight(sharing)
        self._message: Payload = {}
        self._each: dict[str, Payload] = {}
        self._class_weights: list[float] = []
        #: With differential privacy, the weights that the clients' updates are changes of.
        self.reference: dict[str, Any] | None = None

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {**super().state(), **self.oversight.state()}

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        super().load_state(state)
        self.oversight.load_state(state)

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
        about: Payload | None = None,
    ) -> None:
        """Have every client build its network, and count the nodes.

        ``recipe`` says what the run's settings do not, ``each`` what is in each client's own; in a
        trial test nodes are left alone and the network may diverge. ``room`` says whether clients
        ``park`` the training before, and which they ``forget``; ``about`` is what a method's own
        clients are told of the training besides.
        """
        parts = recipe.to_payload() if recipe else {}
        parts |= about or {}
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
        tag, trial = f"{self.stage}metrics-{self.round}", self._on_trial
        misled = self.oversight.watch(row.get("train_loss"), replies.ok, tag, trial)
        if not self.diverged:
            self.oversight.compare(total, replies.ok, trial)
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
        if useful and self.oversight.doubtful:
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
        sealed_by, self.oversight.sealed_by = self.oversight.sealed_by, ()
        try:
            return replies, self._sums(at, replies)
        finally:  # only now: whoever is left out for the last round is needed to open these sums
            if error := self.oversight.refused(sealed_by, replies, f"{self.stage}update-{at - 1}"):
                self._spoiled(error)

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
                self.oversight.sealed_by = tuple(replies.ok)
            else:
                forms = {"share": share, **sharing.update_forms()}
                forms |= figures if sharing.one_sum else {}
                about = (forms, self._figure_names, sharing.center())
                summed = clients.total(tag, replies.ok, "update", *about)
                self.oversight.require_near(tag, summed, replies, self._figure_names)
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
    def _on_trial(self) -> bool:
        """Whether the network may diverge, and is not to stay so far."""
        return "trial" in self._message and "test" not in self._message

    @property
    def _most(self) -> float:
        """What shares of all nodes add up to at most: more than 1 with who came too late to be
        counted.
        """
        return 1.0 if set(self.sharing.clients.names) <= set(self.parties) else math.inf

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
        self.oversight.begin_anew()
        sharing.begin(replies)
        return True

    def _spoiled(self, error: SumOutOfBounds) -> None:
        """Sums are nonsense: look for who did it."""
        self.oversight.spoiled(error, self._on_trial)
        self.diverged = self.diverged or self.oversight.given_up

    def _refuse(self, error: SumOutOfBounds) -> Row:
        """A round whose sums are nonsense: nothing changes but who is in the next one."""
        self._spoiled(error)
        self.sharing.skip()
        self.oversight.interrupt()
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
        self.diverged = self.oversight.given_up or bool(np.any(flags > 0.5))
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
