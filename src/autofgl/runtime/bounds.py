"""What sums over clients can be, and what is done about one that cannot be.

A sum hides who sent what, so a client that sends nonsense shows in the sum alone: shares of the
nodes that add up to more than all of them, more correct predictions than nodes, an average that
is farther away than training takes it. Such a sum is not used. Who spoiled it is found as in group
testing (Dorfman, 1943): the following rounds leave some clients out, a few each time, until one is
left that was in every bad sum and in no good one.
"""

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from autofgl.errors import FederationError, one_line
from autofgl.runtime.metrics import SPLITS
from autofgl.runtime.replies import Array, Form
from autofgl.runtime.state import Saved
from autofgl.seeding import numpy_generator

#: What rounding may add to a share of all nodes, in any secure mode.
ROUNDING = 1e-6
#: An average this many times as far away as usual is out of bounds ...
FAR = 10.0
#: ... and so is a client this many times as far away as half of the clients are.
FAR_FROM_OTHERS = 100.0
#: Accepted updates before their distances say what is usual, and how many are remembered.
_FEWEST, _MOST = 3, 50
#: Norms of gradients are told as powers of two up to this one, and down to its inverse.
_OCTAVES = 32


class SumOutOfBounds(FederationError):
    """A revealed sum that honest clients cannot have; nothing of it was used.

    Where it is only unlikely that honest clients have it, it is not ``certain``.
    """

    def __init__(
        self, tag: str, reason: str, contributors: Sequence[str], certain: bool = True
    ) -> None:
        super().__init__(
            f"the sum '{tag}' is nonsense ({one_line(reason)}): a client sent wrong values, or the "
            "training diverges and needs a lower 'lr'"
        )
        self.reason = reason
        self.contributors = tuple(contributors)
        self.certain = certain


def sum_fault(vectors: Mapping[str, Any], forms: Mapping[str, Form]) -> str:
    """What is wrong with a sum: a name is missing, a value not finite or out of its bounds."""
    for name, form in forms.items():
        if name not in vectors:
            return f"'{name}' is missing"
        if why := form.fault(vectors[name]):
            return f"'{name}' {why}"
    odd = (name for name, value in vectors.items() if not np.isfinite(value).all())
    return next((f"'{name}' is not finite" for name in odd), "")


def share_form(most: float = 1.0) -> Form:
    """Of the summed weights of clients: between nothing and all."""
    return Array((), -ROUNDING, most * (1 + ROUNDING) + ROUNDING)


def metrics_form(size: int | None, most: float = 1.0) -> Form:
    """Of summed metrics over the federation's node counts; ``most`` where more than those counted
    may take part.
    """

    def fault(scaled: Any) -> str:
        loss, correct, count = np.moveaxis(scaled.reshape(-1, len(SPLITS), 3), -1, 0)
        wrong = (loss < -ROUNDING) | (correct < -ROUNDING) | (correct > count + ROUNDING)
        return "is out of bounds" if (wrong | (count > most + ROUNDING)).any() else ""

    return Array(None if size is None else (size,), also=fault)


def counts_form() -> Form:
    """Of node counts in units: 0 or more."""
    return Array((3,), -ROUNDING, 2.0**40)


def model_distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Euclidean distance of two models; missing weights are zero.

    In the precision of the weights, which is fast, and again in double precision if squares are too
    large for it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        distance = math.hypot(*(_gap(value, other.get(name)) for name, value in one.items()))
    if math.isfinite(distance):
        return distance
    wide = {name: np.asarray(value, np.float64) for name, value in one.items()}
    return math.hypot(*(_gap(value, other.get(name)) for name, value in wide.items()))


def _gap(value: Any, other: Any) -> float:
    return float(np.linalg.norm(value if other is None else np.subtract(value, other)))


class UsualDistance(Saved):
    """How far updates usually go, to notice one that goes much farther.

    The bound is :data:`FAR` times the median of the last accepted ones, or the present size of what
    is updated if that is more: an honest average does not move by more than both. Before there is a
    median it is the size alone, :data:`FAR` times.
    """

    saved = ("_last",)

    def __init__(self) -> None:
        self._last: list[float] = []

    def limit(self, size: float) -> float:
        """The bound, for an update of something of a given size (norm)."""
        if len(self._last) < _FEWEST:
            return FAR * max(size, 1.0)
        return max(FAR * statistics.median(self._last), size)

    def accepts(self, length: float, size: float) -> bool:
        """Whether an update is within the bound; it is remembered if so."""
        if not length <= self.limit(size):
            return False
        self._last = [*self._last, length][-_MOST:]
        return True


#: Votes on how large vectors are, which travel with them in a sum and are no part of its average.
VOTES = ("scale", "buffer_scale")


def scale_vote(gradient: Mapping[str, Any]) -> dict[str, Any]:
    """A client's vote on how large gradients are now, to travel with its own in a sum: a one for
    the power of two that the norm of its gradient is; none without a gradient.
    """
    votes, norm = np.zeros(2 * _OCTAVES, np.float32), model_distance(gradient, {})
    if norm > 0:
        votes[int(np.clip(math.floor(math.log2(norm)), -_OCTAVES, _OCTAVES - 1)) + _OCTAVES] = 1.0
    return {"scale": votes}


def raised_vote(vote: Any, sent: Mapping[str, Any]) -> Any:
    """The vote on a gradient, or on its vectors as they are ``sent`` if those are larger: rounded
    to few steps, with what was rounded off before, a large vector of tiny entries is longer than
    it was, and so may the sum be.
    """
    if not vote.any():  # nothing to say, or without weight
        return vote
    other = scale_vote(sent)["scale"]
    return other if other.argmax() > vote.argmax() else vote


def plausible_gradient(opened: Mapping[str, Any], late: bool = False) -> bool:
    """Whether a sum of weighted gradients with votes can be one; whoever opens it decides alike.

    Shares add up to at most one, or to one for each vote with clients that came too ``late`` to be
    counted; votes are whole, and the average is at most :data:`FAR` times as large as half of the
    clients say of theirs. By the triangle inequality it is not even as large as the largest.
    """
    votes: Any = opened.get("scale")
    gradient = {name: value for name, value in opened.items() if name not in ("share", "scale")}
    length = model_distance(gradient, {})
    if Array((2 * _OCTAVES,), -ROUNDING).fault(votes) or not math.isfinite(length):
        return False
    most = max(1.0, float(votes.sum())) if late else 1.0
    if "share" not in opened or share_form(most).fault(opened["share"]):
        return False
    share = float(opened["share"])
    if np.abs(votes - np.rint(votes)).max() > 1e-3:
        return False
    if share <= ROUNDING or votes.sum() < 0.5:
        return True
    half = int(np.argmax(np.cumsum(votes) >= votes.sum() / 2)) - _OCTAVES
    return length / share <= FAR * 2.0 ** (half + 1)


def far_from_others(lengths: Mapping[str, float]) -> list[str]:
    """Clients whose update is out of all proportion; it takes three to tell."""
    usual = statistics.median(lengths.values()) if len(lengths) > 2 else 0.0
    return [name for name, length in lengths.items() if length > FAR_FROM_OTHERS * usual > 0]


class Suspects:
    """Finds the client that spoils sums, where a sum hides who sent what.

    The search assumes one such client that always does it. One that does it now and then, or
    several, take longer, and may have an honest client left out as well.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._names: frozenset[str] = frozenset()
        self._bad_sums = 0
        self._cleared = False
        self.aside: frozenset[str] = frozenset()

    @property
    def active(self) -> bool:
        """Whether anybody is suspect."""
        return bool(self._names)

    def spoiled(
        self, contributors: Iterable[str], names: Collection[str], most: int, certain: bool = True
    ) -> str:
        """A sum was out of bounds. The client that spoiled it, if it is known by now; else some are
        left ``aside`` from now on, ``most`` at a time. Unless it is ``certain`` a client is not
        known by it before a sum without that client is in bounds again.
        """
        there = frozenset(contributors) & set(names)
        if not there:  # who did it is known, and gone
            return ""
        self._bad_sums += 1
        self._cleared = self._cleared and certain
        self._names = (self._names & there) or there
        return self._next(names, most)

    def cleared(self, contributors: Collection[str], names: Collection[str], most: int) -> str:
        """A sum was in bounds: who was in it did not spoil it; as above."""
        if not self._names or not contributors:
            return ""
        self._cleared = True
        self._names = (self._names - frozenset(contributors)) & set(names)
        if not self._names:  # whoever it was behaves now
            self.aside, self._cleared = frozenset(), False
            return ""
        return self._next(names, most)

    def _next(self, names: Collection[str], most: int) -> str:
        if len(self._names) == 1 and self._cleared:
            (culprit,) = self._names
            self._names = self.aside = frozenset()
            self._cleared = False
            return culprit
        # At least two at a time: the difference of two sums is not to be about one client.
        rng = numpy_generator(self._seed, "suspects", self._bad_sums, len(self._names))
        count = min(most, max(2, -(-len(self._names) // 2)))
        suspects = rng.permutation(sorted(self._names)).tolist()
        suspects = suspects[: count if len(suspects) > most else -(-len(suspects) // 2)]
        others = rng.permutation(sorted(set(names) - self._names)).tolist()
        self.aside = frozenset([*suspects, *others][:count])
        return ""
