"""What a comparison says, in sentences."""

from collections.abc import Sequence

from autofgl.compare.standing import LEVEL, EntrySummary, differences, leader
from autofgl.report.numbers import bytes_, count, percent, seconds

#: A cost is told only where the next one is so many times as high.
_CLEARLY = 1.05


def verdict(entries: Sequence[EntrySummary]) -> list[str]:
    """Who is most accurate, who cannot be told apart from it, and what is cheapest among these."""
    first = leader(entries)
    if first is None:
        return ["Nothing is finished yet."]
    apart = differences(entries)
    others = [entry for entry in entries if entry.entry.name in apart]
    level = [entry for entry in others if not apart[entry.entry.name].told_apart]
    said = [f"Most accurate: {first.entry.label}, {_accuracy(first)} on test nodes."]
    if not others:
        return [*said, "There is nothing to compare it with yet."]
    fewest = min(one.seeds for one in apart.values())
    if fewest < 2:
        said.append("One seed tells nothing about chance: run more.")
    elif level:
        names = ", ".join(entry.entry.label for entry in level)
        said.append(f"{fewest} seeds do not tell {names} apart from it (p ≥ {LEVEL:g}).")
    else:
        said.append(f"All others are behind it (p < {LEVEL:g}, {fewest} seeds).")
    said += _cheapest([first, *level])
    unfinished = [entry for entry in entries if len(entry.runs) < entry.wanted]
    if unfinished:
        left = sum(entry.wanted - len(entry.runs) for entry in unfinished)
        said.append(f"{left} runs are still missing.")
    return said


def _cheapest(entries: Sequence[EntrySummary]) -> list[str]:
    if len(entries) < 2:
        return []
    said = []
    for key, word, form in (
        ("wall_s", "needs the least time", seconds),
        ("bytes", "sends the fewest bytes", bytes_),
        ("parameters", "has the smallest network", count),
    ):
        known = [(entry.mean(key), entry) for entry in entries]
        costs = sorted(((cost, entry.entry.label) for cost, entry in known if cost is not None))
        if len(costs) > 1 and costs[1][0] > _CLEARLY * costs[0][0]:
            said.append(f"Of these, {costs[0][1]} {word} ({form(costs[0][0])}).")
    return said


def _accuracy(entry: EntrySummary) -> str:
    mean, spread = entry.mean("test_accuracy"), entry.deviation("test_accuracy")
    told = percent(mean or 0.0)
    return told if spread is None else f"{told} ± {percent(spread)}"
