"""What a client contributes with differential privacy: bounded, alike for all, and with noise.

The guarantee is for a whole client: whoever sees everything that a run releases can hardly tell
whether a client contributed its values or zeros. So no part of a sum may depend on how large a
client is, and no count may say it:

- every client weighs the same, 1 / n of the n clients that the run began with;
- an update is the change since weights that everybody has, or a gradient, brought to a norm of
  ``dp_clip``; gradients are followed as they are, in steps that long at most: Adam would take
  noise for signal;
- biases stay what they are: there are few of them, but each acts on all nodes, and their noise
  would drown the rest;
- figures are accuracies and losses per node, the latter up to :data:`LARGEST_LOSS`, and only those
  of the end of a training: those of every round would take most of the privacy;
- what no noise covers is not told at all: seconds, whether a trial diverged, label counts.

Public are the clients' names, who takes part, and whether a client has any training, validation or
test nodes at all.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autofgl.errors import UserError
from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.runtime.metrics import SPLITS
from autofgl.secure import Reveal, SumClient, SumRefused
from autofgl.secure.accountant import PrivacyPlan, Releases
from autofgl.secure.noise import NoiseRecord, NoisyClient

#: A client's mean loss counts as no more than this.
LARGEST_LOSS = 4.0

#: Values of figures and the bounds of those that need noise, the others being zero.
Bounded = tuple[Any, Any]


def is_private(settings: Any) -> bool:
    """Whether settings ask for differential privacy."""
    return bool(getattr(settings, "dp_epsilon", 0))


def privacy_plan(settings: Any) -> PrivacyPlan:
    """The noise that settings ask for; the server and every client come to the same."""
    planned: Releases = settings.releases
    return PrivacyPlan(settings.dp_epsilon, settings.dp_delta, planned)


def check_privacy(settings: Any, secure: str, parties: Sequence[str]) -> None:
    """Refuse differential privacy that would not hold; a UserError says why."""
    if not is_private(settings):
        return
    if secure == "none":
        raise UserError(
            "--dp needs secure sums, or the server sees every client's part with too little noise: "
            "add --secure shares"
        )
    if settings.releases is None:
        raise UserError(
            "with these settings clients tell more than sums, and --dp epsilon would not cover "
            f"{settings.beyond_sums}"
        )
    if settings.dp_delta * len(parties) >= 1:
        raise UserError(
            f"dp_delta={settings.dp_delta:g} would allow to give a client away: it has to be less "
            f"than 1/{len(parties)}, the number of clients"
        )


class PrivateClient:
    """A client's side of sums with noise."""

    def __init__(self, sums: SumClient, context: Context, settings: Any, secure: str) -> None:
        check_privacy(settings, secure, context.parties)
        self.record = NoiseRecord(noise_file(context.ledger))
        self.sums = NoisyClient(
            sums,
            privacy_plan(settings),
            self.record,
            clip=settings.dp_clip,
            fewest=sums.fewest,
            colluders=settings.dp_colluders,
        )
        self._clients = len(context.parties)
        self._deviation = 0.0

    def constant(self, tag: str, vectors: Mapping[str, Any]) -> Payload:
        """Contribute what does not depend on the client's data."""
        return self.sums.release(tag, public=vectors)

    def contribute(
        self,
        tag: str,
        vectors: Mapping[str, Any],
        reference: Mapping[str, Any],
        reveal: Reveal,
        broadcast: bytes = b"",
    ) -> Payload:
        """Contribute figures, or a weighted update without the ``reference`` that all clients have.

        Vectors of an update that are no part of its average, those named in :data:`UNTOLD`, are
        zeros.
        """
        update, figures = (vectors, {}) if "share" in vectors else ({}, vectors)
        bounded = {name: self._bounded(tag, name, value) for name, value in figures.items()}
        if "diverged" in figures:  # of a trial, which leaves test nodes alone
            for values in bounded["metrics"]:  # what has no bound has no noise: nothing is told
                values.reshape(-1, len(SPLITS), 3)[:, SPLITS.index("test")] = 0
        if "metrics" in bounded:
            bounds = {name: bound for name, (_, bound) in bounded.items()}
            self._deviation = self.sums.figure_deviation(bounds)
        share = float(update.get("share", 0.0))
        changes = {name: value for name, value in update.items() if name not in ("share", *UNTOLD)}
        matrices = {name: value for name, value in changes.items() if np.ndim(value) > 1}
        changes = matrices or changes
        fixed = [name for name in update if name not in changes and name != "share"]
        public = {name: np.zeros_like(update[name]) for name in fixed}
        if update:
            public["share"] = np.array(float(share > 0) / self._clients)
        for name, value in changes.items():
            own = np.asarray(value, np.float64) / share - reference.get(name, 0.0) if share else 0.0
            changes[name] = np.broadcast_to(own, np.shape(value))
        return self.sums.release(
            tag,
            update=changes,
            figures={name: value for name, (value, _) in bounded.items()},
            bounds={name: bound for name, (_, bound) in bounded.items()},
            public=public,
            weight=1 / self._clients,
            reveal=reveal,
            active=not update or share > 0,
            broadcast=broadcast,
        )

    def spent(self) -> Payload:
        """How many releases this client has made, and the noise of the last accuracy: the standard
        deviation of its mean over all clients.
        """
        made = self.record.made
        deviation = self._deviation / math.sqrt(self._clients)
        return {"updates": made.updates, "figures": made.figures, "deviation": deviation}

    def _bounded(self, tag: str, name: str, value: Any) -> Bounded:
        if name not in FIGURES:
            raise SumRefused(f"'{tag}': no bound of '{name}' is known, and so no noise covers it")
        return FIGURES[name](np.asarray(value, np.float64), self._clients)


def within_bounds(total: Mapping[str, Any]) -> dict[str, Any]:
    """Summed figures without what only noise can have made of them."""
    whole = dict(total)
    for name in ("metrics", "common"):
        if name in whole:
            rows = np.array(whole[name]).reshape(-1, 3)
            rows[:, 0] = np.clip(rows[:, 0], 0, LARGEST_LOSS * rows[:, 2])
            rows[:, 1] = np.clip(rows[:, 1], 0, rows[:, 2])
            whole[name] = rows.reshape(np.shape(whole[name]))
    if "own" in whole:
        pairs = np.array(whole["own"]).reshape(-1, 2)
        pairs[:, 0] = np.clip(pairs[:, 0], 0, pairs[:, 1])
        whole["own"] = pairs.reshape(-1)
    return whole


def _metrics(sums: Any, clients: int) -> Bounded:
    """Loss, correct and count of each split as if it had one node; training nodes are left out."""
    del clients
    rows = sums.reshape(-1, len(SPLITS), 3)
    count = rows[..., 2:]
    values = np.concatenate([rows[..., :2] / np.maximum(count, 1e-300), np.sign(count)], axis=-1)
    values *= np.sign(count)
    bounds = np.zeros_like(values)
    bounds[..., 1:, :2] = LARGEST_LOSS, 1.0
    values[..., SPLITS.index("train"), :2] = 0
    return values.reshape(sums.shape), bounds.reshape(sums.shape)


def _own(values: Any, clients: int) -> Bounded:
    """Accuracies and whether there is one; summed over clients, not averaged."""
    bounds = np.zeros_like(values)
    bounds[::2] = clients
    return values * clients, bounds


def _untimed(values: Any, clients: int) -> Bounded:
    """No seconds, of one client."""
    return np.array([0.0, float(clients)]), np.zeros_like(values)


def _losses(values: Any, clients: int) -> Bounded:
    """Mean losses of several networks."""
    del clients
    return values, np.full_like(values, LARGEST_LOSS)


def _shares(values: Any, clients: int) -> Bounded:
    """Accuracies of several networks."""
    del clients
    return values, np.ones_like(values)


def _untold(values: Any, clients: int) -> Bounded:
    del clients
    return np.zeros_like(values), np.zeros_like(values)


#: How each of the figures is bounded.
FIGURES: dict[str, Callable[[Any, int], Bounded]] = {
    "metrics": _metrics,
    "common": _metrics,
    "own": _own,
    "seconds": _untimed,
    "diverged": _untold,
    "losses": _losses,
    "correct": _shares,
}
#: Parts of an update that are no part of its average.
UNTOLD = ("labels", "query_loss", "cost", "loss")


def noise_file(ledger: Path | None, kind: str = "noise") -> Path | None:
    """Where a client keeps what its noise comes from: beside its record of sums."""
    return ledger.with_name(f"{ledger.name}.{kind}") if ledger else None
