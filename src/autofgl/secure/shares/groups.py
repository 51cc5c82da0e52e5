"""Who sums with whom: beyond 30 parties masks are shared within groups only.

Every party shares a mask with every other one of its group, so that cost and bytes of a party stay
what they are at 30, however many parties there are. The server adds the sums of the groups; it sees
them, each of no fewer parties than the group's threshold.

Groups follow from the names of all parties alone: a resumed run has the same ones, so that no
party is ever in two different sums of one name. Whoever could choose names, or keys if the groups
followed from them, could choose who is together; the bound on colluding parties that
:mod:`autofgl.secure.shares` states is that of one group and holds for any groups.

With ``together`` a group falls into fixed sets of so many parties or a few more, and every sum is
of whole sets, whose members all contribute more than zeros, or none does. So all sums of a run are
sums of what the sets add up to, and no combination of them is about fewer parties than a set has,
whatever the server hands out in however many rounds. So et al., "Securing secure aggregation:
mitigating multi-round privacy leakage in federated learning", AAAI 2023.
"""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from autofgl.errors import UserError
from autofgl.secure import SumSettings

#: Most parties of one group, and about how many a group has where there are several.
MOST, USUAL = 30, 20


@dataclass(frozen=True)
class SumGroup:
    """Parties that share masks, in order, how many of them it takes to open their sum, and which
    of them are only ever in a sum together.
    """

    index: int
    members: tuple[str, ...]
    threshold: int
    sets: tuple[tuple[str, ...], ...]

    def whole(self, names: Collection[str]) -> tuple[str, ...]:
        """Those of some parties whose sets are there as a whole, in order."""
        there = {name for own in self.sets if set(own) <= set(names) for name in own}
        return tuple(name for name in self.members if name in there)


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
        return (SumGroup(0, parties, threshold, sets_of(parties, settings.together)),)
    groups = []
    chosen = _dealt(parties, max(-(-len(parties) // MOST), len(parties) // USUAL))
    for index, members in enumerate(chosen):
        own = _usual_threshold(len(members))
        if settings.threshold is not None:
            share = -(-settings.threshold * len(members) // len(parties))
            own = max(share, len(members) // 2 + 1)
        groups.append(SumGroup(index, members, own, sets_of(members, settings.together)))
    return tuple(groups)


def sets_of(parties: tuple[str, ...], together: int) -> tuple[tuple[str, ...], ...]:
    """Parties in sets of so many or a few more."""
    return _dealt(parties, max(1, len(parties) // together))


def _dealt(parties: tuple[str, ...], count: int) -> tuple[tuple[str, ...], ...]:
    """Parties in so many parts, by their names alone; each part in order."""
    order = sorted(parties, key=lambda name: hashlib.sha256(name.encode()).digest())
    parts = (set(order[index::count]) for index in range(count))
    return tuple(tuple(name for name in parties if name in part) for part in parts)


def _usual_threshold(count: int) -> int:
    return 2 * count // 3 + 1
