"""Looks after a training at the server: whose updates spoil it, and what becomes of whom."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from autofgl.federation.party import Replies
from autofgl.federation.payload import Payload
from autofgl.runtime.bounds import SumOutOfBounds, UsualDistance, model_distance
from autofgl.runtime.metrics import train_losses
from autofgl.runtime.progress import Progress, foretold_by
from autofgl.runtime.reversal import ReversalCheck, flattened
from autofgl.runtime.sharing import SharingServer
from autofgl.runtime.state import Saved
from autofgl.runtime.summing import average

REVERSED = "its updates go the opposite way of what lowers its own loss"


class Oversight(Saved):
    """Takes in what a training's rounds add up to, and has bad clients left out.

    A network ``on_trial`` may diverge; ``given_up`` says that its sums were refused, and that
    nobody could be spared.
    """

    saved = ("_usual", "_progress", "_reversals")

    def __init__(self, sharing: SharingServer) -> None:
        self.sharing = sharing
        self.given_up = False
        #: Who was in the last sum that the clients open, and is yet to be judged by them.
        self.sealed_by: tuple[str, ...] = ()
        self._usual = UsualDistance()
        self._progress = Progress()
        self._reversals = ReversalCheck()
        self._sound: set[str] = set()

    @property
    def doubtful(self) -> bool:
        """Whether the clients are to say what their gradients foretell."""
        return self._progress.doubtful

    def begin_anew(self) -> None:
        """The training begins anew."""
        self._usual, self._progress = UsualDistance(), Progress()
        self.sealed_by = ()

    def interrupt(self) -> None:
        """A round came to nothing."""
        self._reversals.interrupt()
        self._progress.interrupt()

    def refused(
        self, sealed_by: tuple[str, ...], replies: Replies, tag: str
    ) -> SumOutOfBounds | None:
        """The clients open the summed update themselves: what most of them made of the last one,
        of a ``tag``.
        """
        self._sound = set(replies.ok)
        if not sealed_by or self.sharing.clients.secure == "none":
            return None
        refusals = sum("refused" in reply for reply in replies.ok.values())
        if 2 * refusals <= len(replies.ok):
            self._sound &= set(sealed_by)
            return None
        self._sound = set()
        return SumOutOfBounds(tag, "its update is out of bounds", sealed_by)

    def spoiled(self, error: SumOutOfBounds, on_trial: bool) -> None:
        """Look for who did it; where nobody can be spared, a network on trial has come to nothing,
        whether by itself or by a client, and the next one has its turn.
        """
        try:
            self.sharing.clients.spoiled(error)
        except SumOutOfBounds:
            if not on_trial:
                raise
            self.given_up = True

    def watch(
        self, loss: float | None, replies: Mapping[str, Payload], tag: str, on_trial: bool
    ) -> bool:
        """Suspect a client when the training loss does not fall as it should, or let those off
        with whom it does. A network on trial may diverge; and where the server sees single updates
        it judges by them.

        Returns:
            Whether a client is left out by it, which has misled the training until now.
        """
        clients, wrong = self.sharing.clients, ""
        before = set(clients.dropped)
        judged_by_loss = clients.secure != "none" and not on_trial and self._reports_its_aim
        if loss is not None and judged_by_loss:
            about = (foretold_by(replies), tuple(replies), clients.suspecting)
            judged = self._progress.observe(loss, *about)
            if judged is None:
                return False
            wrong = judged
        if not wrong:
            clients.cleared(self._sound)
        elif clients.can_spare:
            clients.spoiled(SumOutOfBounds(tag, wrong, tuple(replies), certain=False))
        return self._progress.searching and set(clients.dropped) != before

    def compare(
        self, total: Mapping[str, Any], replies: Mapping[str, Payload], on_trial: bool
    ) -> None:
        """Leave clients out whose updates go against what they report, where the server sees both;
        a client alone harms nobody else, and a network on trial may diverge: its steps are followed
        all the same, since they go on when it is to stay.
        """
        clients, center = self.sharing.clients, self.sharing.center()
        if clients.secure != "none" or center is None or len(replies) < 2:
            return
        step = self.sharing.step_of(total)
        if step is None or on_trial or not self._reports_its_aim:
            self._reversals.interrupt()
            return
        parts = clients.own_parts(replies, "update")
        near = {name: average(part) for name, part in parts.items() if name not in clients.far}
        start = flattened(center) if center else 0.0
        sent = {name: flattened(one) - start for name, one in near.items() if one}
        losses = train_losses(clients.own_parts(replies, "metrics"))
        reversed_by = self._reversals.observe(sent, losses, step, gradients=not center)
        left_out = sum(one == REVERSED for one in clients.dropped.values())
        if 2 * (left_out + len(reversed_by)) < left_out + len(replies):  # most cannot be wrong
            clients.leave_out(dict.fromkeys(reversed_by, REVERSED), len(replies))

    def require_near(
        self, tag: str, total: Mapping[str, Any], replies: Replies, figures: Collection[str]
    ) -> None:
        """Refuse an average that is farther away than training takes it, in the secure modes;
        ``figures`` are no part of it.
        """
        center = self.sharing.center()
        clients = self.sharing.clients
        if center is None or clients.secure == "none" or clients.private:
            return
        mean = average({name: total[name] for name in total.keys() - set(figures)})
        size = (
            model_distance(center, {}) if center else math.sqrt(sum(v.size for v in mean.values()))
        )
        if mean and not self._usual.accepts(model_distance(mean, center), size):
            raise SumOutOfBounds(tag, "the average is too far away", tuple(replies.ok))

    @property
    def _reports_its_aim(self) -> bool:
        """Whether clients descend the training loss that they report, and nothing besides."""
        return not getattr(self.sharing.settings, "consistency", 0.0)
