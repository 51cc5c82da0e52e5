"""Methods side by side: the same graphs, the same cuts, the same seeds, the same budget.

Every seed of a method is an ordinary run folder, ``OUT/<method>/seed-<n>``. ``compare.html``,
``compare.csv`` and ``comparison.json`` are made anew from the folders after every run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autofgl.experiments.curves import mean_best_so_far
from autofgl.experiments.pages import csv_text, json_text, page_header
from autofgl.experiments.plan import Comparison, Options, Run
from autofgl.experiments.ranking import LEVEL, Difference, differences, leader, ranking, verdict
from autofgl.experiments.runner import Pages
from autofgl.experiments.summary import Figures, Summary, summarize
from autofgl.report.charts import Chart, Series
from autofgl.report.charts.figures import Cells, chart_grid, table
from autofgl.report.numbers import NOTHING, Format, bytes_, count, percent, plain, seconds
from autofgl.report.page import Content, Safe, Section, element, page
from autofgl.runs.folder import Result, RunFolder

Entries: TypeAlias = Sequence[Summary]

_KEYS = ("test_accuracy", "val_accuracy", "parameters", "wall_s", "bytes_up", "bytes_down")
_OPTIONAL_KEYS = ("bytes_peer", "inference_s", "architecture", "stopped_by", "rounds")
_CSV_KEYS = (
    "test_accuracy", "val_accuracy", "wall_s", "bytes", "bytes_up", "bytes_down", "parameters",
    "rounds", "stopped_by", "architecture",
)  # fmt: skip
_COSTS: tuple[tuple[str, str, Format], ...] = (
    ("wall_s", "time", seconds),
    ("bytes", "bytes", bytes_),
    ("parameters", "parameters", count),
    ("inference_s", "inference", seconds),
)


def comparison_entries(comparison: Comparison, options: Options) -> list[Summary]:
    """Read the run folders."""
    return [
        summarize(comparison, comparison.setting, variant, options, _run_figures)
        for variant in comparison.variants
    ]


@dataclass(frozen=True)
class ComparisonPages(Pages):
    """``compare.html``, ``compare.csv`` and ``comparison.json``."""

    experiment: Comparison

    def files(self) -> dict[str, str]:
        """Of all methods."""
        comparison, options = self.experiment, self.options
        entries = comparison_entries(comparison, options)
        rows = (
            (entry.variant.label, seed, *(run[key] for key in _CSV_KEYS))
            for entry in entries
            for seed, run in entry.runs.items()
        )
        return {
            "comparison.json": json_text(_json(comparison, options, entries)),
            "compare.csv": csv_text(("entry", "seed", *_CSV_KEYS), rows),
            "compare.html": _html(comparison, options, entries),
        }

    def describe(self, run: Run, result: Result) -> str:
        """Its accuracy, its time and its bytes."""
        del run
        figures = result.figures
        megabytes = (figures["bytes_up"] + figures["bytes_down"]) / 1e6
        return (
            f"test accuracy {100 * result.test_accuracy:.1f} in {figures['wall_s']:.1f} s, "
            f"{megabytes:.1f} MB"
        )

    def ending(self, files: dict[str, str]) -> str:
        """The table, the verdict, and where the page is."""
        del files
        entries = comparison_entries(self.experiment, self.options)
        width = max(len(entry.variant.label) for entry in entries)
        lines = [f"{entry.variant.label:{width}}  {_line(entry)}" for entry in entries]
        written = f"written to {self.options.out / 'compare.html'}"
        return "\n".join(("", *lines, "", *verdict(entries), written))


def _run_figures(folder: RunFolder) -> Figures:
    result = folder.read_result()
    figures = {key: result[key] for key in _KEYS} | {key: result.get(key) for key in _OPTIONAL_KEYS}
    sent = [figures[key] or 0 for key in ("bytes_up", "bytes_down", "bytes_peer")]
    return {**figures, "bytes": sum(sent)}


def _line(entry: Summary) -> str:
    if entry.accuracy is None:
        return "nothing finished"
    megabytes = (entry.mean("bytes") or 0.0) / 1e6
    return f"{entry.mean_and_std} %  {entry.mean('wall_s'):.1f} s  {megabytes:.1f} MB"


def _json(comparison: Comparison, options: Options, entries: Entries) -> dict[str, Any]:
    """All figures; accuracies are in [0, 1]."""
    apart = differences(entries)
    return {
        "comparison": comparison.name,
        "data": comparison.data,
        "clients": comparison.setting.clients,
        "partition": comparison.setting.partition,
        "secure": options.secure,
        "budget": options.budget,
        "verdict": verdict(entries),
        "entries": [_entry_json(entry, apart.get(entry.variant.name)) for entry in entries],
    }


def _entry_json(entry: Summary, apart: Difference | None) -> dict[str, Any]:
    keys = ("test_accuracy", "val_accuracy", "wall_s", "bytes")
    return {
        "entry": entry.variant.label,
        "mean": {key: entry.mean(key) for key in keys},
        "std": entry.deviation("test_accuracy"),
        "behind_the_best": None if apart is None else apart.mean,
        "p": None if apart is None else apart.p,
        "seeds_wanted": entry.wanted,
        **entry.runs_as_json(),
    }


def _html(comparison: Comparison, options: Options, entries: Entries) -> str:
    """One page with everything that a reader needs to choose."""
    sections = [
        Section("In short", element("ul", [element("li", line) for line in verdict(entries)])),
        Section("Table", _ranking_table(entries)),
        Section("Accuracy against cost", _against_cost(entries)),
        Section("On the way", _on_the_way(options, entries)),
        Section("Every run", _every_run(entries)),
        Section("How it was made", _how(options, entries)),
    ]
    setting, title = comparison.setting, f"{comparison.title} on {comparison.data}"
    about = (
        f"{setting.clients or NOTHING} clients, partition {setting.partition}, secure sums "
        f"{options.secure}, budget {options.budget} for each run, {options.seeds} seeds."
    )
    done, wanted = sum(len(entry.runs) for entry in entries), sum(e.wanted for e in entries)
    state = f"{done} of {wanted} runs are finished." if done < wanted else ""
    return page(title, page_header("comparison", title, about, state), sections)


def _ranking_table(entries: Entries) -> list[Content]:
    first, apart = leader(entries), differences(entries)
    rows: list[list[Content]] = []
    for entry in ranking(entries):
        accuracy = NOTHING if entry.accuracy is None else f"{entry.mean_and_std} %"
        means = [(entry.mean(key), form) for key, _, form in _COSTS]
        costs = [NOTHING if mean is None else form(mean) for mean, form in means]
        gap = _gap(apart.get(entry.variant.name), entry is first)
        rows.append([entry.variant.label, accuracy, *gap, entry.progress, *costs])
    headings = ("method", "test accuracy", "behind the best", "p", "seeds",
                *(name for _, name, _ in _COSTS))  # fmt: skip
    note = (
        "Mean ± sample standard deviation over seeds; costs are means of whole runs. Behind the "
        "best: mean paired difference with its 95 % confidence interval. p: paired t-test over "
        f"seeds, Holm-corrected; * marks p < {LEVEL:g}. The winner was not fixed beforehand, and "
        "few seeds show large differences only."
    )
    cells = Cells(headings, rows, frozenset(range(1, len(headings))))
    return [table(cells, "Ranking"), element("p", note, class_="note")]


def _gap(apart: Difference | None, first: bool) -> list[Content]:
    if apart is None:
        return ["best" if first else NOTHING, NOTHING]
    gap = f"{-100 * apart.mean:.1f}"
    if apart.half_width is None or apart.p is None:
        return [gap, NOTHING]
    significance = f"{plain(round(apart.p, 4))}{' *' if apart.significant else ''}"
    return [f"{gap} ± {100 * apart.half_width:.1f}", significance]


def _against_cost(entries: Entries) -> Content:
    note = "Up and to the left is better. Whiskers: one standard deviation."
    done = [entry for entry in entries if entry.accuracy is not None]
    charts = []
    for key, name, form in _COSTS[:3]:
        series = []
        for entry in done:
            point = (entry.mean(key), *entry.whisker("test_accuracy"))
            series.append(Series.of(entry.variant.label, [point], joined=False))
        title = f"Test accuracy against {name}"
        charts.append(Chart(title, name, series, percent, form, log_x=True, note=note))
    return chart_grid(charts) or element("p", "Nothing is finished yet.")


def _on_the_way(options: Options, entries: Entries) -> Content:
    note = (
        "Mean over seeds; the band reaches from the worst to the best seed. A search measures its "
        "candidates, which is not yet the network that it trains in the end."
    )
    charts = []
    for key, name, form in _COSTS[:2]:
        series = []
        for entry in entries:
            folders = (entry.folder(options, seed) for seed in entry.runs)
            series.append(Series.of(entry.variant.label, mean_best_so_far(folders, key)))
        title = f"Best validation accuracy so far over {name}"
        charts.append(Chart(title, name, series, percent, form, log_x=True, note=note))
    return chart_grid(charts) or element("p", "Nothing is finished yet.")


def _every_run(entries: Entries) -> Safe:
    rows: list[list[Content]] = []
    for entry in entries:
        label, name = entry.variant.label, entry.variant.name
        for seed, run in entry.runs.items():
            link = element("a", "report", href=f"{name}/seed-{seed}/report.html")
            costs = seconds(run["wall_s"]), bytes_(run["bytes"])
            accuracy, network = percent(run["test_accuracy"]), str(run["architecture"])
            rows.append([label, str(seed), accuracy, *costs, network, link])
        for seed, reason in entry.failed.items():
            rows.append([label, str(seed), f"failed: {reason}", "", "", "", ""])
    headings = ("method", "seed", "test accuracy", "time", "bytes", "network", "")
    return table(Cells(headings, rows, frozenset({1, 2, 3, 4})), "Every run")


def _how(options: Options, entries: Entries) -> list[Content]:
    notes = [
        f"The budget of {options.budget} is the same for each run. No round begins after it; a "
        "search trains its best network after its budget, so whole runs may take longer.",
        "A seed decides the cut of the graph and the split, so all methods of a seed have the same "
        "clients; weights and dropout follow from the same seed too.",
        "Networks and rounds are chosen by validation nodes; test nodes are only reported on.",
        "All runs were made one after the other on one machine. Time depends on it, bytes do not.",
    ]
    rows: list[list[Content]] = []
    for entry in entries:
        settings = ", ".join(f"{key}={value}" for key, value in entry.variant.settings.items())
        rows.append([entry.variant.label, settings or "defaults"])
    return [
        element("ul", [element("li", line) for line in notes]),
        table(Cells(("method", "settings"), rows), "Settings"),
    ]
