"""What each client gains in the runs of a leaderboard, over training alone and the common model."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autofgl.experiments.plan import Leaderboard
from autofgl.experiments.summary import Summary
from autofgl.report.charts.figures import Cells, table_figure
from autofgl.report.numbers import NOTHING, count
from autofgl.report.page import Content, element

#: What a gain is over: the name of the gain in a client's line, and what to call it.
RIVALS = {"gain": "alone", "over_common": "the common model"}
COLUMNS = (
    "client", "test", "test_accuracy", "alone_test_accuracy", "gain", "gain_low", "gain_high",
    "common_test_accuracy", "over_common", "over_common_low", "over_common_high",
)  # fmt: skip
#: Half of a 95 % interval, in standard errors.
_HALF = 1.96


@dataclass(frozen=True)
class GainCounts:
    """How many clients are at least as good as a rival, and as good within one standard error."""

    clients: int
    at_least: int
    within: int


def gain_lines(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The clients of a run that were compared with themselves alone, with what was compared."""
    return [
        {"client": line["name"], **{key: line[key] for key in COLUMNS[1:] if key in line}}
        for line in result["per_client"]
        if "gain" in line
    ]


def within_error(line: Mapping[str, Any], gain: str) -> bool:
    """Whether a client is at least as good as a rival, or not worse by more than one standard error
    of the paired difference on its test nodes.
    """
    error = (line[f"{gain}_high"] - line[f"{gain}_low"]) / (2 * _HALF)
    return bool(line[gain] >= -error)


def gain_counts(lines: Iterable[Mapping[str, Any]], *gains: str) -> GainCounts:
    """Of clients, against all of the named rivals at once."""
    known = [line for line in lines if all(gain in line for gain in gains)]
    at_least = sum(all(line[gain] >= 0 for gain in gains) for line in known)
    within = sum(all(within_error(line, gain) for gain in gains) for line in known)
    return GainCounts(len(known), at_least, within)


def gains_section(board: Leaderboard, columns: Iterable[Sequence[Summary]]) -> Content:
    """For each method, over all settings and seeds; none where nothing was compared."""
    lines: dict[str, list[Mapping[str, Any]]] = {}
    for column in columns:
        for cell in column:
            rows = [line for run in cell.runs.values() for line in run["gains"]]
            lines.setdefault(cell.variant.label, []).extend(rows)
    rows = []
    for label in dict.fromkeys(board.entries.values()):
        for names in (("gain",), ("over_common",), ("gain", "over_common")):
            one = gain_counts(lines.get(label, []), *names)
            if one.clients:
                rivals = " and ".join(RIVALS[name] for name in names)
                shares = [_share(number, one.clients) for number in (one.at_least, one.within)]
                rows.append([label, rivals, count(one.clients), *shares])
    if not rows:
        return None
    headings = (
        "method", "against", "clients", "at least as good", "within one standard error",
    )  # fmt: skip
    words = (
        "Each client of each seed on its own test nodes; the standard error is that of the paired "
        "difference. clients.csv has every client."
    )
    return [
        table_figure("Clients that gain", Cells(headings, rows, frozenset({2, 3, 4}))),
        element("p", words, class_="note"),
    ]


def _share(number: int, of: int) -> str:
    return f"{number} ({100 * number / of:.0f} %)" if of else NOTHING
