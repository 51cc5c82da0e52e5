"""Who sums with whom: beyond 30 parties masks are shared within groups only.

Every party shares a mask with every other one of its group, so that cost and bytes of a party stay
what they are at 30, however many parties there are. The server adds the sums of the groups; it sees
them, each of no fewer parties than the group's threshold.

Groups follow from the names of all parties alone: a resumed run has the same ones, so that no
party is ever in two different sums of one name. Whoever could choose names, or keys if the groups
followed from them, could choose who is together; the bound on colluding parties that
:mod:`autofgl.secure.shares` states is that of one group and holds for any groups.
"""

import hashlib
from dataclasses import dataclass

from autofgl.errors import UserError
from autofgl.secure import SumSettings

#: Most parties of one group, and about how many a group has where there are several.
MOST, USUAL = 30, 20


@dataclass(frozen=True)
class SumGroup:
    """Parties that share masks, in order, and how many of them it takes to open their sum."""

    index: int
    members: tuple[str, ...]
    threshold: int


def threshold_of(settings: SumSettings) -> int:
    """Parties that it takes to open a sum: more than two thirds unless set otherwise.

    It must be more than half of them: two sets of so many have a member in common, and an honest
    one never confirms two different partitions.
    """
    count = len(settings.parties)
    threshold = settings.at_least(_usual_threshold(count))
    if 2 * threshold <= count:
        raise UserError(
            f"secure sums need a threshold of more than half the parties: set "
            f"secure_threshold between {count // 2 + 1} and {count}, not {threshold}, or leave it "
            "out"
        )
    return threshold


def groups_of(settings: SumSettings) -> tuple[SumGroup, ...]:
    """The groups of all parties; one up to :data:`MOST` parties, or if one is asked for."""
    parties, threshold = settings.parties, threshold_of(settings)
    if len(parties) <= MOST or settings.one_group:
        return (SumGroup(0, parties, threshold),)
    count = max(-(-len(parties) // MOST), len(parties) // USUAL)
    order = sorted(parties, key=lambda name: hashlib.sha256(name.encode()).digest())
    groups = []
    for index in range(count):
        chosen = set(order[index::count])
        members = tuple(name for name in parties if name in chosen)
        own = _usual_threshold(len(members))
        if settings.threshold is not None:
            share = -(-settings.threshold * len(members) // len(parties))
            own = max(share, len(members) // 2 + 1)
        groups.append(SumGroup(index, members, own))
    return tuple(groups)


def _usual_threshold(count: int) -> int:
    return 2 * count // 3 + 1
