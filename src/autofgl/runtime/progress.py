"""Tells from summed losses that a client works against the others, where sums hide who sent what.

No single sum shows that one of the gradients in it is reversed; what becomes of the loss does. When
the common weights w move by Δ, the summed loss L of clients falls at least as far as their summed
gradient G *after* the move says, wherever it is convex along the way::

    L(w) − L(w + Δ)  ≥  −⟨G(w + Δ), Δ⟩

(It is the gradient after the move since noise of dropout and mini-batches has no part in that move,
while that of the gradient before it has: over many rounds, a gradient before a move foretells more
than comes true.) A client that sends −g_i and counts its loss in L makes the right side too large
by twice the climb of its own loss: the sum foretells a fall that does not come. How unlike honest
clients are does not matter, since the line holds for each of them and so for their sum.

Where clients open the sums they tell the server the right side, but only while the loss falls much
more slowly than it did; the server learns hardly more from it than from the losses that it has.
Elsewhere there is only the loss itself: honest clients do not make it climb for long.

Then groups of clients are left aside in turn (:class:`autofgl.runtime.bounds.Suspects`), each for
some rounds in which who takes part stays the same, and judged by the same rule.
"""

import statistics
from collections.abc import Collection, Mapping
from typing import Any

from autofgl.runtime.state import Saved

#: A training loss this many times the least so far, in so many rounds, is a climb.
CLIMBED, CLIMBING = 1.2, 3
#: A loss above this part of the first one is worth a look ...
_HIGH = 1 / 3
#: ... if in so many rounds it falls by less than this part of its largest such fall.
_SPAN, _SLOWER = 5, 0.5
#: In so many rounds in a row less than half of what was foretold has to come, and at least such a
#: part of the loss in all has to be foretold.
STEADY, HALF, _MATTERS = 8, 0.5, 0.1
#: So many changes of the loss are enough to judge a group if more than all but a quarter of what
#: was foretold came, or less than a quarter; so many in any case.
ENOUGH, PLENTY, CLEAR = 2, 5, 0.25

NOT_AS_FORETOLD = "the training loss does not fall as the gradients foretell"
CLIMBS = "the training loss climbs"


class Progress(Saved):
    """Takes in the rounds of a training under a secure mode, and judges who took part in them."""

    saved = ("_first", "_least", "_losses", "_largest_fall")

    def __init__(self) -> None:
        self._first: float | None = None
        self._least = 0.0
        #: Losses of the present group in the last rounds.
        self._losses: list[float] = []
        self._largest_fall = 0.0
        self._climbing = 0
        self._last: tuple[float, frozenset[str]] | None = None
        #: The change of the loss in the last round, whose foretelling comes with the next one.
        self._change: float | None = None
        #: Changes of the loss of one group, and what was foretold of them if anything was.
        self._pairs: list[tuple[float, float | None]] = []
        #: Whether groups are judged, since the loss did not fall as it should.
        self.searching = False

    @property
    def doubtful(self) -> bool:
        """Whether the clients are to say what their gradients foretell."""
        if self.searching:
            return True
        if len(self._losses) <= _SPAN or self._losses[-1] <= _HIGH * (self._first or 0.0):
            return False
        return self._losses[0] - self._losses[-1] < _SLOWER * self._largest_fall

    def observe(
        self, loss: float, foretold: float | None, group: Collection[str], suspecting: bool
    ) -> str | None:
        """Take in a round: the training loss of a group at the weights with which it begins, what
        was ``foretold`` of the change before it, and whether anybody is suspect.

        Returns:
            What is wrong with the group, empty if nothing is, None if it cannot be told yet.
        """
        self._pair(foretold)
        self._follow(loss, frozenset(group))
        if self.searching and not suspecting:  # it is over, and what it has cost counts no more
            self.searching, self._least, self._climbing = False, loss, 0
        if self.searching:
            return self._judge()
        if self._climbing and suspecting:  # somebody else has a reason
            return CLIMBS
        if self._steadily_wrong():
            return self._search(NOT_AS_FORETOLD)
        explained = any(foretold is not None for _, foretold in self._pairs)
        if self._climbing >= CLIMBING and not explained:
            return self._search(CLIMBS)
        return None if self._climbing else ""

    def interrupt(self) -> None:
        """A round came to nothing."""
        self._last, self._change, self._pairs = None, None, []

    def _pair(self, foretold: float | None) -> None:
        if self._change is not None:
            self._pairs = [*self._pairs, (self._change, foretold)][-STEADY:]

    def _follow(self, loss: float, group: frozenset[str]) -> None:
        if self._first is None:
            self._first = self._least = loss
        usual = max(self._least, self._first * _HIGH)  # one that is low already may climb by chance
        self._climbing = self._climbing + 1 if loss > CLIMBED * usual else 0
        self._least = min(self._least, loss)
        if self._last is None or self._last[1] != group:
            self._change, self._pairs, self._losses = None, [], []
        else:
            self._change = loss - self._last[0]
        self._last = (loss, group)
        self._losses = [*self._losses, loss][-_SPAN - 1 :]
        if len(self._losses) > _SPAN:
            self._largest_fall = max(self._largest_fall, self._losses[0] - loss)

    def _steadily_wrong(self) -> bool:
        """Whether fall after fall was foretold and less than half of each came."""
        pairs = [(change, foretold) for change, foretold in self._pairs if foretold is not None]
        if len(pairs) < STEADY or not all(_too_little(*pair) for pair in pairs):
            return False
        return sum(foretold for _, foretold in pairs) < -_MATTERS * self._losses[-1]

    def _search(self, reason: str) -> str:
        self.searching, self._pairs, self._change = True, [], None
        return reason

    def _judge(self) -> str | None:
        """A group that has been the same for some rounds."""
        if len(self._pairs) < ENOUGH:
            return None
        change = sum(change for change, _ in self._pairs)
        broadcast = [foretold for _, foretold in self._pairs if foretold is not None]
        explained, foretold = len(broadcast) == len(self._pairs), sum(broadcast)
        between = explained and (1 - CLEAR) * foretold < change < CLEAR * foretold
        if between and len(self._pairs) < PLENTY:
            return None
        self._pairs = []
        if not explained:
            return CLIMBS if change > 0 else ""
        return NOT_AS_FORETOLD if _too_little(change, foretold) else ""


def _too_little(change: float, foretold: float) -> bool:
    return foretold < 0 and change > HALF * foretold


def foretold_by(replies: Mapping[str, Mapping[str, Any]]) -> float | None:
    """What clients say that their summed gradient foretold: all of them should say the same."""
    broadcast = [float(reply["foretold"]) for reply in replies.values() if "foretold" in reply]
    return statistics.median(broadcast) if broadcast else None
