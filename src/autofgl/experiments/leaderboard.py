"""Methods on many datasets and cuts: who is ahead, by how much, and whether that is more than luck.

In a cell (method, setting, seed) one run is made for every point of the tuning grid, and the one
with the best validation accuracy counts; its time and bytes are those of all of them. All methods
have the same grid, as far as they read its settings. Methods are ranked in each setting by their
mean over seeds; mean ranks that differ by less than the critical difference of Nemenyi's test
(Demšar, 2006) cannot be distinguished. Every row names a digest of its run folder, and may be
signed (:mod:`autofgl.experiments.digests`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import stats

from autofgl.experiments.charts import cut_charts
from autofgl.experiments.digests import SigningKey, folder_digest
from autofgl.experiments.gains import COLUMNS, gain_counts, gain_lines, gains_section
from autofgl.experiments.pages import csv_text, json_text, page_header
from autofgl.experiments.plan import Leaderboard, Options, Run, Setting
from autofgl.experiments.ranking import LEVEL, differences
from autofgl.experiments.runner import Pages
from autofgl.experiments.summary import Figures, Summary, summarize
from autofgl.report.charts.figures import Cells, chart_grid, charts_svg, table
from autofgl.report.numbers import NOTHING, bytes_, percent, seconds
from autofgl.report.page import Content, Section, element, page
from autofgl.runs.folder import Result, RunFolder

#: Where figures for ten clients are published.
PUBLISHED_IN = ("OpenFGL (Li et al., PVLDB, 2025), Table 7", "TopFGL, Table III")
#: The best accuracy there of each dataset, in percent; published, not run again.
BEST_PUBLISHED = {
    "cora": 85.9,
    "planetoid:cora": 85.9,
    "planetoid:citeseer": 72.4,
    "planetoid:pubmed": 89.7,
    "coauthor:cs": 93.8,
    "coauthor:physics": 96.2,
}
_KEYS = ("test_accuracy", "val_accuracy", "wall_s", "bytes_up", "bytes_down", "rounds")
_CSV_KEYS = ("test_accuracy", "val_accuracy", "wall_s", "bytes", "rounds", "chosen", "digest")


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of methods over settings that have all of them."""

    mean: Mapping[str, float]
    settings: int
    critical: (
        float | None
    )  #: difference of mean ranks that is more than luck; none below 2 settings
    p: float | None  #: of Friedman's test that all are equal; none below 3 methods or 2 settings


@dataclass(frozen=True)
class LeaderboardPages(Pages):
    """``leaderboard.json``, ``.csv``, ``.html``, and ``.svg`` once there is something to draw."""

    experiment: Leaderboard
    key: SigningKey | None = None  #: that signs every row

    def files(self) -> dict[str, str]:
        """Of all cells."""
        board, options = self.experiment, self.options
        cells = leaderboard_cells(board, options)
        rows = (
            (
                cell.variant.label,
                cell.setting.dataset,
                cell.setting.level,
                seed,
                *(run[key] for key in _CSV_KEYS),
            )
            for column in cells.values()
            for cell in column
            for seed, run in cell.runs.items()
        )
        head = ("method", "dataset", "partition", "seed", *_CSV_KEYS)
        charts = cut_charts(board, cells)
        drawn = {"leaderboard.svg": charts_svg([charts])} if charts else {}
        return {
            "leaderboard.json": json_text(self._signed(_json(board, options, cells))),
            "leaderboard.csv": csv_text(head, rows),
            "leaderboard.html": _html(board, options, cells),
            **drawn,
            **_clients_csv(cells),
        }

    def _signed(self, content: dict[str, Any]) -> dict[str, Any]:
        if self.key is None:
            return content
        rows = [self.key.signed(row) for row in content["rows"]]
        return {**content, "public_key": self.key.public, "rows": rows}

    def describe(self, run: Run, result: Result) -> str:
        """Its accuracy and its time."""
        del run
        figures = result.figures
        return f"test accuracy {100 * result.test_accuracy:.1f} in {figures['wall_s']:.1f} s"

    def ending(self, files: dict[str, str]) -> str:
        """Mean ranks, and where the page is."""
        del files
        cells = leaderboard_cells(self.experiment, self.options)
        ranks = mean_ranks(list(cells.values()))
        lines = [f"{rank:5.2f}  {label}" for label, rank in _in_order(ranks)]
        last = [_spread(ranks), f"written to {self.options.out / 'leaderboard.html'}"]
        last += [f"signed with the key whose public half is {self.key.public}"] if self.key else []
        return "\n".join(("", "mean rank  method", *lines, "", *last))


def _clients_csv(cells: Mapping[str, Sequence[Summary]]) -> dict[str, str]:
    """A line for each client of each run that was compared; no file if none was."""
    lines = [
        (cell.variant.label, cell.setting.dataset, cell.setting.level, seed, *_in_columns(line))
        for column in cells.values()
        for cell in column
        for seed, run in cell.runs.items()
        for line in run["gains"]
    ]
    head = ("method", "dataset", "partition", "seed", *COLUMNS)
    return {"clients.csv": csv_text(head, lines)} if lines else {}


def _in_columns(line: Mapping[str, Any]) -> list[Any]:
    return [line.get(key) for key in COLUMNS]


def leaderboard_cells(board: Leaderboard, options: Options) -> dict[str, list[Summary]]:
    """What counts of each method, by the name of the setting."""
    return {setting.name: _column(board, setting, options) for setting in board.settings}


def _column(board: Leaderboard, setting: Setting, options: Options) -> list[Summary]:
    column = []
    for label in dict.fromkeys(board.entries.values()):
        mine = [one for one in board.variants if board.entries[one.name] == label]
        parts = [summarize(board, setting, one, options, _run_figures) for one in mine]
        seeds = sorted(set.intersection(*(set(part.runs) for part in parts)))
        runs = {seed: _chosen([part.runs[seed] for part in parts]) for seed in seeds}
        failed = {seed: why for part in parts for seed, why in part.failed.items()}
        name = replace(mine[0], name=label, label=label)
        column.append(Summary(setting, name, runs, failed, parts[0].wanted))
    return column


def _chosen(tried: Sequence[Figures]) -> Figures:
    """The best by validation nodes, with the time and the bytes of all."""
    best = max(tried, key=lambda one: one["val_accuracy"])
    costs = {key: sum(one[key] for one in tried) for key in ("wall_s", "bytes")}
    return {**best, **costs}


def _run_figures(folder: RunFolder) -> Figures:
    result = folder.read_result()
    figures = {key: result[key] for key in _KEYS}
    return {
        **figures,
        "bytes": sum(result.get(key) or 0 for key in ("bytes_up", "bytes_down", "bytes_peer")),
        "chosen": folder.path.parent.name,
        "digest": folder_digest(folder.path),
        "folder": f"{folder.path.parent.parent.name}/{folder.path.parent.name}/{folder.path.name}",
        "gains": gain_lines(result),
    }


def mean_ranks(columns: Sequence[Sequence[Summary]]) -> Ranks:
    """Over the settings in which every method has a result; the best has rank 1, equals share."""
    whole = [column for column in columns if all(cell.runs for cell in column)]
    if not whole:
        return Ranks({}, 0, None, None)
    labels = [cell.variant.label for cell in whole[0]]
    scores = [[cell.mean("test_accuracy") or 0.0 for cell in column] for column in whole]
    ranks = [stats.rankdata([-score for score in row]) for row in scores]
    mean = {
        label: float(sum(row[at] for row in ranks)) / len(ranks) for at, label in enumerate(labels)
    }
    n, k = len(whole), len(labels)
    critical = p = None
    if n > 1 and k > 1:
        q = float(stats.studentized_range.ppf(1 - LEVEL, k, math.inf)) / math.sqrt(2)
        critical = q * math.sqrt(k * (k + 1) / (6 * n))
    if n > 1 and k > 2:
        found = float(stats.friedmanchisquare(*zip(*scores, strict=True)).pvalue)
        p = found if math.isfinite(found) else 1.0
    return Ranks(mean, n, critical, p)


def _in_order(ranks: Ranks) -> list[tuple[str, float]]:
    return sorted(ranks.mean.items(), key=lambda one: one[1])


def _spread(ranks: Ranks) -> str:
    """What mean ranks say."""
    if ranks.critical is None:
        return "Mean ranks of a single setting say little: run more datasets or partitions."
    about = (
        f"{ranks.settings} settings; critical difference {ranks.critical:.2f} (Nemenyi, {LEVEL:g})"
    )
    return about if ranks.p is None else f"{about}; all equal: p = {ranks.p:.3g} (Friedman)"


def _json(
    board: Leaderboard, options: Options, cells: Mapping[str, list[Summary]]
) -> dict[str, Any]:
    ranks = mean_ranks(list(cells.values()))
    return {
        "leaderboard": board.name,
        "about": board.title,
        "secure": options.secure,
        "ranks": dict(_in_order(ranks)),
        "critical_difference": ranks.critical,
        "friedman_p": ranks.p,
        "published_not_run_again": {
            "best": {
                setting.dataset: BEST_PUBLISHED[setting.dataset]
                for setting in board.settings
                if setting.dataset in BEST_PUBLISHED
            },
            "sources": list(PUBLISHED_IN),
        },
        "rows": [
            {
                "method": cell.variant.label,
                "dataset": cell.setting.dataset,
                "partition": cell.setting.level,
                "seed": seed,
                **run,
            }
            for column in cells.values()
            for cell in column
            for seed, run in cell.runs.items()
        ],
        "failed": {
            f"{name}, {cell.variant.label}, seed {seed}": why
            for name, column in cells.items()
            for cell in column
            for seed, why in cell.failed.items()
        },
    }


def _html(board: Leaderboard, options: Options, cells: Mapping[str, list[Summary]]) -> str:
    columns = list(cells.values())
    ranks, charts = mean_ranks(columns), cut_charts(board, cells)
    sections = [
        Section("Test accuracy", [*_accuracies(board, cells, ranks), chart_grid(charts)]),
        *(
            Section(setting.label, _setting_table(cells[setting.name]))
            for setting in board.settings
        ),
        Section("How it was made", _how(board)),
    ]
    if (gained := gains_section(board, columns)) is not None:
        sections.insert(1, Section("Gains of clients", gained))
    done = sum(len(cell.runs) for column in columns for cell in column)
    wanted = sum(cell.wanted for column in columns for cell in column)
    about = f"{board.title}, secure sums {options.secure}, {options.seeds} seeds."
    state = f"{done} of {wanted} cells are finished." if done < wanted else ""
    return page("Leaderboard", page_header("leaderboard", "Leaderboard", about, state), sections)


def _accuracies(
    board: Leaderboard, cells: Mapping[str, list[Summary]], ranks: Ranks
) -> list[Content]:
    """A row for each method, by its mean rank, and one of what was published."""
    labels = list(dict.fromkeys(board.entries.values()))
    by_rank = sorted(labels, key=lambda label: ranks.mean.get(label, math.inf))
    rows: list[list[Content]] = []
    for label in by_rank:
        rank = f"{ranks.mean[label]:.2f}" if label in ranks.mean else NOTHING
        mine = [next(c for c in column if c.variant.label == label) for column in cells.values()]
        rows.append([label, rank, *(one.mean_and_std if one.runs else NOTHING for one in mine)])
    best = [BEST_PUBLISHED.get(setting.dataset or "") for setting in board.settings]
    if any(best):
        shown = [NOTHING if one is None else f"{one:.1f}" for one in best]
        rows.append(["best published, not run again", NOTHING, *shown])
    headings = ("method", "mean rank", *(setting.label for setting in board.settings))
    numeric = frozenset(range(1, len(headings)))
    return [table(Cells(headings, rows, numeric), "Test accuracy"), element("p", _spread(ranks))]


def _setting_table(column: Sequence[Summary]) -> list[Content]:
    """Differences to the best over seeds, costs, and gains per client."""
    apart = differences(column)
    rows: list[list[Content]] = []
    for cell in sorted(column, key=lambda one: -(one.accuracy or 0.0)):
        one = apart.get(cell.variant.label)
        gap = NOTHING if one is None else f"{-100 * one.mean:.1f}"
        p = NOTHING if one is None or one.p is None else f"{one.p:.3g}"
        accuracy = f"{cell.mean_and_std} %" if cell.runs else NOTHING
        costs = [cell.mean("wall_s"), cell.mean("bytes")]
        shown = [NOTHING if costs[0] is None else seconds(costs[0])]
        shown.append(NOTHING if costs[1] is None else bytes_(costs[1]))
        rows.append([cell.variant.label, accuracy, gap, p, cell.progress, *shown, _gaining(cell)])
    headings = ("method", "test accuracy", "behind the best", "p", "seeds", "time", "bytes",
                "clients that gain")  # fmt: skip
    digests = [
        [cell.variant.label, str(seed), str(run["chosen"]), element("code", str(run["digest"]))]
        for cell in column
        for seed, run in cell.runs.items()
    ]
    folders = table(Cells(("method", "seed", "chosen", "digest of its folder"), digests), "Folders")
    closed = element("details", element("summary", "Run folders"), folders)
    return [table(Cells(headings, rows, frozenset(range(1, len(headings)))), "Methods"), closed]


def _gaining(cell: Summary) -> str:
    """Share of the clients whose test accuracy is not below what they have alone."""
    one = gain_counts((line for run in cell.runs.values() for line in run["gains"]), "gain")
    return percent(one.at_least / one.clients) if one.clients else NOTHING


def _how(board: Leaderboard) -> Content:
    notes = [
        "A seed decides the cut, the split, the initial weights and dropout, so that all methods "
        "of a seed have the same clients.",
        "Settings and rounds are chosen by validation nodes; test nodes are only reported on. Time "
        "and bytes are those of all settings that were tried.",
        "Behind the best: mean paired difference over seeds; p: paired t-test, Holm-corrected.",
        f"Published figures are the best of {' and '.join(PUBLISHED_IN)}; they are of other cuts, "
        "splits and ways to evaluate.",
        "autofgl leaderboard --verify compares rows with their run folders, and signatures.",
    ]
    tried = len(board.variants)
    notes.append(f"{tried} variants of {len(set(board.entries.values()))} methods were tried.")
    return element("ul", [element("li", note) for note in notes])
