"""Who is ahead in a comparison, and whether the seeds can tell: paired differences over seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats

from autofgl.experiments.summary import Figures, Summary
from autofgl.report.numbers import bytes_, count, percent, seconds

#: Differences with a larger probability under "no difference" are not significant.
LEVEL = 0.05
#: A cost is mentioned only where the next one is so many times as high.
_CLEARLY = 1.05


@dataclass(frozen=True)
class Difference:
    """How far a variant is behind another over the seeds that both have."""

    mean: float  #: mean difference of test accuracy in [0, 1]; negative: it is behind
    half_width: float | None  #: of the 95 % confidence interval; none for a single seed
    #: Two-sided probability of so large a difference if there is none, by a paired t-test and
    #: Holm's correction for the number of variants; none for a single seed.
    p: float | None
    seeds: int  #: number of pairs

    @property
    def significant(self) -> bool:
        """Whether the seeds show a difference."""
        return self.p is not None and self.p < LEVEL


def ranking(entries: Sequence[Summary]) -> list[Summary]:
    """From the highest mean test accuracy to the lowest; equals in their own order."""
    return sorted(entries, key=lambda entry: -(entry.accuracy or 0.0))


def leader(entries: Sequence[Summary]) -> Summary | None:
    """The first of the ranking, if anything is finished."""
    return next(iter(ranking([entry for entry in entries if entry.runs])), None)


def differences(entries: Sequence[Summary]) -> dict[str, Difference]:
    """Every other variant against the leader, by the variant's name."""
    first = leader(entries)
    if first is None:
        return {}
    pairs = {
        entry.variant.name: paired_difference(entry.runs, first.runs)
        for entry in entries
        if entry is not first
    }
    apart = {name: one for name, one in pairs.items() if one is not None}
    corrected = holm({name: one.p for name, one in apart.items()})
    return {name: replace(one, p=corrected[name]) for name, one in apart.items()}


def paired_difference(
    ours: Mapping[int, Figures], theirs: Mapping[int, Figures]
) -> Difference | None:
    """The difference of two variants, seed by seed; none if they have no seed in common."""
    seeds = sorted(set(ours) & set(theirs))
    gaps = [ours[seed]["test_accuracy"] - theirs[seed]["test_accuracy"] for seed in seeds]
    if not gaps:
        return None
    mean = statistics.mean(gaps)
    if len(gaps) < 2:
        return Difference(mean, None, None, 1)
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    freedom = len(gaps) - 1
    if error < 1e-12:  # the same difference for every seed
        return Difference(mean, 0.0, 1.0 if abs(mean) < 1e-12 else 0.0, len(gaps))
    p = 2 * float(stats.t.sf(abs(mean) / error, freedom))
    return Difference(mean, float(stats.t.ppf(0.975, freedom)) * error, p, len(gaps))


def holm(ps: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm's correction: the least times their number, the next times one less, never falling."""
    present = sorted((p, name) for name, p in ps.items() if p is not None)
    corrected: dict[str, float | None] = dict.fromkeys(ps)
    least = 0.0
    for place, (p, name) in enumerate(present):
        least = max(least, min(1.0, p * (len(present) - place)))
        corrected[name] = least
    return corrected


def verdict(entries: Sequence[Summary]) -> list[str]:
    """Who is most accurate, whom the seeds cannot tell from it, and who is cheapest of these."""
    first = leader(entries)
    if first is None:
        return ["Nothing is finished yet."]
    apart = differences(entries)
    others = [entry for entry in entries if entry.variant.name in apart]
    level = [entry for entry in others if not apart[entry.variant.name].significant]
    mean, std = first.mean("test_accuracy") or 0.0, first.deviation("test_accuracy")
    accuracy = percent(mean) if std is None else f"{percent(mean)} ± {percent(std)}"
    said = [f"Most accurate: {first.variant.label}, {accuracy} on test nodes."]
    if not others:
        return [*said, "There is nothing to compare it with yet."]
    fewest = min(one.seeds for one in apart.values())
    if fewest < 2:
        said.append("One seed does not show how much results vary: run more.")
    elif level:
        names = ", ".join(entry.variant.label for entry in level)
        said.append(f"{fewest} seeds do not distinguish {names} from it (p ≥ {LEVEL:g}).")
    else:
        said.append(f"All others are behind it (p < {LEVEL:g}, {fewest} seeds).")
    said += _cheapest([first, *level])
    missing = sum(max(0, entry.wanted - len(entry.runs)) for entry in entries)
    if missing:
        said.append(f"{missing} runs are still missing.")
    return said


def _cheapest(entries: Sequence[Summary]) -> list[str]:
    said = []
    for key, words, form in (
        ("wall_s", "needs the least time", seconds),
        ("bytes", "sends the fewest bytes", bytes_),
        ("parameters", "has the smallest network", count),
    ):
        means = [(entry.mean(key), entry.variant.label) for entry in entries]
        costs = sorted((cost, label) for cost, label in means if cost is not None)
        if len(costs) > 1 and costs[1][0] > _CLEARLY * costs[0][0]:
            said.append(f"Of these, {costs[0][1]} {words} ({form(costs[0][0])}).")
    return said
