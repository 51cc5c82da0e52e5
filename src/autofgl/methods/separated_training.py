"""The server's side of one training of SFGNN (Algorithm 2)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.methods.fedavg_client import COUNT_UNIT
from autofgl.methods.label_mixing import distribution
from autofgl.methods.method import Row
from autofgl.methods.metrics import BestRound, Metrics, by_client, scale_up
from autofgl.methods.sums import FederatedSums, average

#: ``call(op, payload, each)``: how the method that owns a training calls its clients.
Call = Callable[[str, Payload, Mapping[str, Payload] | None], Replies]


class SeparatedTraining:
    """Rounds from fresh weights on.

    A round mixes in the last mean, evaluates it and makes the next one, in a single call to each
    client and a single sum. The figures of round t are thus those of the weights after t-1 means.

    Args:
        sums: Those of the method that owns this, which makes the keys.
        call: How that method calls its clients.
        select: Which round's weights are kept; see :class:`BestRound`.
        stage: Put before the names of all sums, which differ between trainings.
    """

    def __init__(self, sums: FederatedSums, call: Call, select: str, stage: str) -> None:
        self._sums = sums
        self._call = call
        self._stage = stage
        self.round = 0
        self.parties: list[str] = []
        self.best = BestRound(select)
        self._totals = [0, 0, 0]
        self._news: Payload = {"keep": False}

    def begin(self, hyper: Mapping[str, Payload], trial: bool) -> None:
        """Have every client build its network, and count the nodes.

        Args:
            hyper: Hyper-parameters of each client.
            trial: Whether test nodes are left alone and a network may diverge.
        """
        each = {name: {"hyper": own} for name, own in hyper.items()}
        replies = self._call("begin", {"stage": self._stage, "trial": trial}, each).ok
        self.parties = sorted(replies)
        counts = self._sums.total(f"{self._stage}begin", replies, "told")["nodes"] * COUNT_UNIT
        self._totals = [round(float(count)) for count in counts]

    def step(self) -> Row:
        """One round: W_s, Q_s and M from the clients' sum (Algorithm 2, lines 16 to 19)."""
        self.round += 1
        replies = self._ask(contribute=True)
        total = self._sums.total(f"{self._stage}round-{self.round}", replies.ok, "told")
        row = self._judge(self.round - 1, total)
        labels, mean = distribution(total.pop("labels")), average(total)
        if mean:
            self._news |= {"mean": mean, "labels": labels}
        row = {"round": self.round, **row, "clients": len(replies.ok)}
        row |= by_client(self._sums.own_parts(replies.ok, "told"))
        return {**row, "failed": sorted(replies.failed)} if replies.failed else row

    def evaluate_last(self) -> Row:
        """Evaluate the last mean too; no round can follow."""
        self.round += 1
        replies = self._ask(contribute=False)
        total = self._sums.total(f"{self._stage}round-{self.round}", replies.ok, "told")
        self.round -= 1
        return self._judge(self.round, total)

    def conclude(self) -> tuple[Mapping[str, Payload], dict[str, Any]]:
        """Replies of the clients on the weights that were kept, and the sum of their figures.

        To be called once, after :meth:`evaluate_last`.
        """
        message = {"stage": self._stage, "totals": self._totals, "keep": self._news["keep"]}
        replies = self._call("conclude", message, None).ok
        return replies, self._sums.total(f"{self._stage}conclude", replies, "told")

    def metrics(self, total: Mapping[str, Any]) -> Metrics:
        """Federated figures, by nodes."""
        return Metrics.of(scale_up(total["metrics"], self._totals))

    def state(self) -> Payload:
        """Everything between two rounds."""
        return {
            "round": self.round,
            "parties": self.parties,
            "best": asdict(self.best),
            "totals": self._totals,
            "news": self._news,
        }

    def load_state(self, state: Payload) -> None:
        """Take up where :meth:`state` was taken."""
        self.round, self.parties = state["round"], state["parties"]
        self.best = BestRound(**state["best"])
        self._totals, self._news = state["totals"], dict(state["news"])

    def _ask(self, contribute: bool) -> Replies:
        about = {"stage": self._stage, "round": self.round, "totals": self._totals}
        return self._call("round", {**self._news, **about, "contribute": contribute}, None)

    def _judge(self, at: int, total: dict[str, Any]) -> Row:
        """Figures of the weights just evaluated; by M they may be the best so far."""
        metrics, means = self.metrics(total), client_means(total.pop("own"))
        del total["metrics"]
        judged = replace(metrics, val_accuracy=means["mean_val_accuracy"])
        self._news["keep"] = self.best.update(at, judged)
        row = asdict(metrics)
        del row["val_nodes"]
        return row | means


def client_means(own: Any) -> dict[str, float]:
    """M: the mean over clients of their own accuracies, from the sum ``[4]`` of what they told."""
    right, clients = np.asarray(own).reshape(2, 2).T
    val, test = (right / np.maximum(clients, 1.0)).tolist()
    return {"mean_val_accuracy": val, "mean_test_accuracy": test}
