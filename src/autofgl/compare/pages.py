"""A comparison as HTML, CSV and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from autofgl.compare.contest import Contest
from autofgl.compare.curves import anytime
from autofgl.compare.standing import (
    LEVEL,
    Difference,
    EntrySummary,
    differences,
    leader,
)
from autofgl.compare.verdict import verdict
from autofgl.report.charts import Chart, Series
from autofgl.report.charts.figures import Cells, chart_grid, table
from autofgl.report.numbers import NOTHING, Format, bytes_, count, percent, plain, seconds
from autofgl.report.page import Content, Safe, Section, element, page
from autofgl.reproduce.options import Options

Entries = Sequence[EntrySummary]

_COSTS: tuple[tuple[str, str, Format], ...] = (
    ("wall_s", "time", seconds),
    ("bytes", "bytes", bytes_),
    ("parameters", "parameters", count),
    ("inference_s", "inference", seconds),
)


def as_html(contest: Contest, options: Options, entries: Entries) -> str:
    """One page with everything that a reader needs to choose."""
    sections = [
        Section("In short", element("ul", [element("li", line) for line in verdict(entries)])),
        Section("Table", _standings(entries)),
        Section("Accuracy against cost", _against_cost(entries)),
        Section("On the way", _on_the_way(options, entries)),
        Section("Every run", _every_run(entries)),
        Section("How it was made", _how(contest, options, entries)),
    ]
    return page(f"{title(contest)}", _header(contest, options, entries), sections)


def title(contest: Contest) -> str:
    """Methods and data."""
    return f"{', '.join(entry.label for entry in contest.entries)} on {_data(contest)}"


def as_csv(entries: Entries) -> str:
    """A row for each finished run."""
    text = io.StringIO()
    keys = ("test_accuracy", "val_accuracy", "wall_s", "bytes", "bytes_up", "bytes_down",
            "parameters", "rounds", "stopped_by", "architecture")  # fmt: skip
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("entry", "seed", *keys))
    for entry in entries:
        for seed, run in entry.runs.items():
            writer.writerow((entry.entry.label, seed, *(run[key] for key in keys)))
    return text.getvalue()


def as_json(contest: Contest, options: Options, entries: Entries) -> str:
    """All figures; accuracies are in [0, 1]."""
    apart = differences(entries)
    whole: dict[str, Any] = {
        "comparison": contest.name,
        "data": _data(contest),
        "clients": contest.clients,
        "partition": contest.partition,
        "secure": options.secure,
        "budget": options.budget,
        "verdict": verdict(entries),
        "entries": [_entry(entry, apart.get(entry.entry.name)) for entry in entries],
    }
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _entry(entry: EntrySummary, apart: Difference | None) -> dict[str, Any]:
    return {
        "entry": entry.entry.label,
        "mean": {
            key: entry.mean(key) for key in ("test_accuracy", "val_accuracy", "wall_s", "bytes")
        },
        "std": entry.deviation("test_accuracy"),
        "behind_the_best": None if apart is None else apart.mean,
        "p": None if apart is None else apart.p,
        "seeds_wanted": entry.wanted,
        "runs": {str(seed): run for seed, run in entry.runs.items()},
        "failed": {str(seed): reason for seed, reason in entry.failed.items()},
    }


def _header(contest: Contest, options: Options, entries: Entries) -> Safe:
    done, wanted = sum(len(entry.runs) for entry in entries), sum(e.wanted for e in entries)
    state = None
    if done < wanted:
        state = element("p", f"{done} of {wanted} runs are finished.", class_="state")
    return element(
        "header",
        element("p", "AutoFGL comparison", class_="kicker"),
        element("h1", title(contest)),
        element(
            "p",
            f"{contest.clients or NOTHING} clients, partition {contest.partition}, secure sums "
            f"{options.secure}, budget {options.budget} for each run, {options.seeds} seeds.",
        ),
        state,
        class_="top",
    )


def _standings(entries: Entries) -> list[Content]:
    first, apart = leader(entries), differences(entries)
    rows: list[list[Content]] = []
    for entry in sorted(entries, key=lambda one: -(one.accuracy or 0.0)):
        costs = [_mean(entry, key, form) for key, _, form in _COSTS]
        gap = _gap(apart.get(entry.entry.name), entry is first)
        rows.append([entry.entry.label, _accuracy(entry), *gap, _seeds(entry), *costs])
    headings = ("method", "test accuracy", "behind the best", "p", "seeds",
                *(name for _, name, _ in _COSTS))  # fmt: skip
    note = (
        "Mean ± sample standard deviation over seeds; costs are means of whole runs. Behind the "
        "best: mean paired difference with its 95 % confidence interval. p: paired t-test over "
        f"seeds, Holm-corrected; * marks p < {LEVEL:g}. The winner was not fixed beforehand, and "
        "few seeds show large differences only."
    )
    cells = Cells(headings, rows, frozenset(range(1, len(headings))))
    return [table(cells, "Standings"), element("p", note, class_="note")]


def _gap(apart: Difference | None, first: bool) -> list[Content]:
    if first:
        return ["best", NOTHING]
    if apart is None:
        return [NOTHING, NOTHING]
    told = f"{-100 * apart.mean:.1f}"
    if apart.half_width is not None:
        told += f" ± {100 * apart.half_width:.1f}"
    if apart.p is None:
        return [told, NOTHING]
    return [told, f"{plain(round(apart.p, 4))}{' *' if apart.told_apart else ''}"]


def _against_cost(entries: Entries) -> Content:
    charts = []
    for key, name, form in _COSTS[:3]:
        series = []
        for entry in entries:
            accuracy, spread = entry.mean("test_accuracy"), entry.deviation("test_accuracy")
            if accuracy is not None:
                room = spread or 0.0
                point = (entry.mean(key), accuracy, accuracy - room, accuracy + room)
                series.append(Series.of(entry.entry.label, [point], joined=False))
        charts.append(
            Chart(f"Test accuracy against {name}", name, series, percent, form, log_x=True,
                  note="Up and to the left is better. Whiskers: one standard deviation.")
        )  # fmt: skip
    return chart_grid(charts) or element("p", "Nothing is finished yet.")


def _on_the_way(options: Options, entries: Entries) -> Content:
    charts = [
        Chart(
            f"Best validation accuracy so far over {name}",
            name,
            [anytime(entry, options, key) for entry in entries],
            percent,
            form,
            log_x=True,
            note="Mean over seeds; the band reaches from the worst to the best seed. A search "
            "measures its candidates, which is not yet the network that it trains in the end.",
        )
        for key, name, form in (("wall_s", "time", seconds), ("bytes", "bytes", bytes_))
    ]
    return chart_grid(charts) or element("p", "Nothing is finished yet.")


def _every_run(entries: Entries) -> Safe:
    rows: list[list[Content]] = []
    for entry in entries:
        for seed, run in entry.runs.items():
            link = element("a", "report", href=f"{entry.entry.name}/seed-{seed}/report.html")
            costs = seconds(run["wall_s"]), bytes_(run["bytes"])
            accuracy, network = percent(run["test_accuracy"]), str(run["architecture"])
            rows.append([entry.entry.label, str(seed), accuracy, *costs, network, link])
        for seed, reason in entry.failed.items():
            rows.append([entry.entry.label, str(seed), f"failed: {reason}", "", "", "", ""])
    headings = ("method", "seed", "test accuracy", "time", "bytes", "network", "")
    return table(Cells(headings, rows, frozenset({1, 2, 3, 4})), "Every run")


def _how(contest: Contest, options: Options, entries: Entries) -> list[Content]:
    told = [
        f"The budget of {options.budget} is the same for each run. No round begins after it; a "
        "search trains what it found after its budget, so whole runs may take longer.",
        "A seed cuts the graph and draws the split, so all methods of a seed have the same "
        "clients; weights and dropout are drawn by the same seed too.",
        "Networks and rounds are chosen by validation nodes; test nodes are only reported on.",
        "All runs were made one after the other on one machine. Time depends on it, bytes do not.",
    ]
    rows: list[list[Content]] = [
        [
            entry.entry.label,
            ", ".join(f"{k}={v}" for k, v in contest.settings_of(entry.entry).items())
            or "defaults",
        ]
        for entry in entries
    ]
    return [
        element("ul", [element("li", line) for line in told]),
        table(Cells(("method", "settings"), rows), "Settings"),
    ]


def _data(contest: Contest) -> str:
    return contest.dataset or f"{len(contest.graphs)} graph files"


def _accuracy(entry: EntrySummary) -> str:
    if entry.accuracy is None:
        return NOTHING
    spread = "" if entry.spread is None else f" ± {entry.spread:.1f}"
    return f"{entry.accuracy:.1f}{spread} %"


def _mean(entry: EntrySummary, key: str, form: Format) -> str:
    mean = entry.mean(key)
    return NOTHING if mean is None else form(mean)


def _seeds(entry: EntrySummary) -> str:
    done = len(entry.runs)
    return str(done) if done >= entry.wanted else f"{done} of {entry.wanted}"
