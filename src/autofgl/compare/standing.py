"""Who is ahead, and whether the seeds can tell: paired differences over seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from autofgl.compare.contest import Contest, Entry, present
from autofgl.reproduce.options import Options
from autofgl.reproduce.over_seeds import OverSeeds, collect
from autofgl.runs.folder import RunFolder

#: Differences with a larger probability under "no difference" are not told apart.
LEVEL = 0.05

_KEYS = ("test_accuracy", "val_accuracy", "parameters", "wall_s", "bytes_up", "bytes_down")
_MAYBE = ("bytes_peer", "inference_s", "architecture", "stopped_by", "rounds")


@dataclass(frozen=True)
class EntrySummary(OverSeeds):
    """An entry over all seeds that are finished.

    Attributes:
        entry: The method and its settings.
        runs: Main figures of each finished run, by seed.
        failed: Why the last try of a seed failed.
        wanted: How many seeds are asked for.
    """

    entry: Entry
    runs: dict[int, dict[str, Any]]
    failed: dict[int, str]
    wanted: int


@dataclass(frozen=True)
class Difference:
    """How far an entry is behind another over the seeds that both have.

    Attributes:
        mean: Mean difference of test accuracy in [0, 1]; negative: it is behind.
        half_width: Half the width of the 95 % confidence interval; none for a single seed.
        p: Two-sided probability of so large a difference if there is none, by a paired t-test and
            Holm's correction for the number of entries; none for a single seed.
        seeds: Number of pairs.
    """

    mean: float
    half_width: float | None
    p: float | None
    seeds: int

    @property
    def told_apart(self) -> bool:
        """Whether the seeds show a difference."""
        return self.p is not None and self.p < LEVEL


def summarise(contest: Contest, options: Options) -> list[EntrySummary]:
    """Read the run folders."""
    found = []
    for entry in contest.entries:
        runs, failed = collect(present(contest, entry, options.out), options.out, _main_figures)
        found.append(EntrySummary(entry, runs, failed, options.seeds or 1))
    return found


def leader(entries: Sequence[EntrySummary]) -> EntrySummary | None:
    """The entry with the highest mean test accuracy; the first of equals."""
    done = [entry for entry in entries if entry.runs]
    return max(done, key=lambda entry: entry.accuracy or 0.0, default=None)


def differences(entries: Sequence[EntrySummary]) -> dict[str, Difference]:
    """Every other entry against the leader, by the entry's name."""
    first = leader(entries)
    others = [entry for entry in entries if first and entry is not first and entry.runs]
    raw = {entry.entry.name: paired(entry.runs, first.runs) for entry in others if first}
    found = {name: one for name, one in raw.items() if one is not None}
    corrected = holm({name: one.p for name, one in found.items()})
    return {
        name: Difference(one.mean, one.half_width, corrected[name], one.seeds)
        for name, one in found.items()
    }


def paired(
    ours: Mapping[int, Mapping[str, Any]], theirs: Mapping[int, Mapping[str, Any]]
) -> Difference | None:
    """The difference of two entries, seed by seed; none if they have no seed in common."""
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
    known = sorted((p, name) for name, p in ps.items() if p is not None)
    corrected: dict[str, float | None] = dict.fromkeys(ps)
    least = 0.0
    for place, (p, name) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - place)))
        corrected[name] = least
    return corrected


def _main_figures(folder: RunFolder) -> dict[str, Any]:
    result = folder.read_result()
    figures = {key: result[key] for key in _KEYS} | {key: result.get(key) for key in _MAYBE}
    moved = [figures[key] or 0 for key in ("bytes_up", "bytes_down", "bytes_peer")]
    return {**figures, "bytes": sum(moved)}
