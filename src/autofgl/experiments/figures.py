"""A paper's figure: ``figure.{html,svg,csv,json}`` and ``summary.md``.

Every seed of a line is an ordinary run folder, ``OUT/<panel>/<line>/seed-<n>``; a policy that lines
use is learned in ``OUT/<panel>/policy/seed-0``. The files are made anew after every run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from autofgl.experiments import pages
from autofgl.experiments.charts import Lines, figure_charts
from autofgl.experiments.pages import Column, Document, Grid, PagePart, mean_of
from autofgl.experiments.plan import ChartKind, Figure, Options, Run, Setting
from autofgl.experiments.runner import Pages
from autofgl.experiments.summary import ENDS, FigureLine, figure_lines, policy_lines
from autofgl.report.charts.figures import chart_grid, charts_svg
from autofgl.report.page import Section
from autofgl.runs.folder import Result

#: What stands in ``figure.csv``: what x and y are, and what else there is of a point.
_CSV: dict[ChartKind, tuple[str, ...]] = {
    "accuracy": (
        "seconds", "test_accuracy", "round", "seconds", "cost", "val_accuracy", "train_loss",
    ),
    "target": ("level", "target_seconds", "target_cost", "target", "test_accuracy"),
    "final": ("level", "test_accuracy", "seconds", "cost", "target_seconds", "target"),
    "levels": ("level", "test_accuracy", "val_accuracy", "wall_s"),
    "returns": ("episode", "discounted_return", "accuracy", "seconds", "cost"),
    "losses": ("generation", "best_loss", "median_loss"),
}  # fmt: skip


@dataclass(frozen=True)
class FigurePages(Pages):
    """The files of a figure."""

    experiment: Figure

    def files(self) -> dict[str, str]:
        """Of all lines, whatever was asked for."""
        figure, options = self.experiment, self.options
        lines, policies = figure_lines(figure, options), policy_lines(figure, options)
        document = _document(figure, options, lines, policies)
        charts = figure_charts(figure, lines)
        sections = document.sections()
        grid = chart_grid(chart for rows in charts.values() for row in rows for chart in row)
        if grid is not None:
            sections.insert(1, Section("Charts", grid))
        content = {
            "figure": figure.name,
            "title": figure.title,
            "source": figure.source,
            "claim": figure.claim,
            "rounds": options.rounds_of(figure),
            "secure": options.secure,
            "lines": [_line_json(line) for line in lines],
            "learning": [_line_json(line) for line in policies],
            "notes": list(figure.notes),
        }
        headings = ("panel", "line", "seed", "x", "y", *_CSV[figure.chart][2:])
        return {
            "figure.json": pages.json_text(content),
            "figure.csv": pages.csv_text(headings, _csv_rows(figure.chart, lines)),
            "summary.md": document.markdown(),
            "figure.html": pages.reproduction_page(figure, sections),
            **{name: charts_svg(rows) for name, rows in charts.items()},
        }

    def describe(self, run: Run, result: Result) -> str:
        """Its accuracy and its time."""
        seconds = f"in {result.figures['wall_s']:.1f} s"
        if self.experiment.chart == "returns" or run.variant in self.experiment.policies:
            return f"policy learned {seconds}"
        return f"test accuracy {100 * result.test_accuracy:.1f} {seconds}"

    def ending(self, files: dict[str, str]) -> str:
        """The summary, and where all files are."""
        html = self.options.out / "figure.html"
        more = "figure.svg, figure.csv and summary.md beside it"
        return f"\n{files['summary.md']}\nwritten to {html}, {more}"


def _line_json(line: FigureLine) -> dict[str, Any]:
    """Every run's figures; accuracies are in [0, 1]."""
    keys = list(next(iter(line.runs.values()), ()))
    return {
        "panel": line.setting.name,
        "line": line.variant.name,
        "target": line.target,
        "seeds_wanted": line.wanted,
        "mean": {key: line.mean(key) for key in keys},
        "std": {key: line.deviation(key) for key in keys},
        **line.runs_as_json(),
    }


def _csv_rows(chart: ChartKind, lines: Lines) -> Iterator[list[Any]]:
    """A row for each point."""
    for line in lines:
        for seed, run in line.runs.items():
            points = [{**run, "level": line.setting.level, "target": line.target}]
            if chart in ("accuracy", "returns", "losses"):
                points = [point._asdict() for point in line.curves[seed]]
            for point in points:
                values = (point[key] for key in _CSV[chart])
                yield [line.setting.name, line.variant.name, seed, *values]


def _document(figure: Figure, options: Options, lines: Lines, policies: Lines) -> Document:
    """The paper's claim, and a part for each panel that was begun."""
    intro = (
        f"Paper: {figure.source}. Ours: `autofgl reproduce {figure.name}`, {_how(figure, options)}",
        f"**The paper's claim:** {figure.claim}",
    )
    if figure.chart == "levels":
        groups = dict.fromkeys(panel.group for panel in figure.settings)
        parts = [_levels_part(figure, group, lines) for group in groups]
    else:
        parts = [_panel_part(figure, panel, lines, policies) for panel in figure.settings]
    begun = [part for part in parts if part is not None]
    return Document(figure.title, PagePart("The paper's claim", intro), begun, figure.notes)


def _how(figure: Figure, options: Options) -> str:
    if figure.chart == "returns":
        return f"secure sums {options.secure}. All figures are means over the seeds."
    how = (
        f"{options.rounds_of(figure)} rounds, secure sums {options.secure}. Federated test "
        "accuracy in percent, mean ± sample standard deviation over the seeds"
    )
    if figure.chart in ("levels", "losses"):
        return f"{how}."
    return (
        f"{how}; all else are means. Seconds and cost (sampled edges × width, in millions) are "
        "those of training, without evaluations; × is the ratio to "
        f"{figure.variants[0].label}. MB are those of one round."
    )


def _levels_part(figure: Figure, group: str, lines: Lines) -> PagePart | None:
    """Accuracies of all lines, a row for each level of a dataset."""
    own = [line for line in lines if line.setting.group == group]
    if not any(line.runs or line.failed for line in own):
        return None
    panel = own[0].setting
    rows: dict[str, list[str]] = {}
    for line in own:
        cell = f"{pages.accuracy_text(line)} ({pages.seeds_text(line)})"
        rows.setdefault(line.setting.level, [line.setting.level]).append(cell)
    headings = (figure.axis, *(f"{variant.label} (seeds)" for variant in figure.variants))
    intro = f"`{panel.dataset}`, partition `{panel.partition}`."
    return PagePart(panel.group, (intro, Grid(headings, list(rows.values()))))


def _panel_part(figure: Figure, panel: Setting, lines: Lines, policies: Lines) -> PagePart | None:
    own = [line for line in lines if line.setting == panel]
    used = [line for line in policies if line.setting == panel]
    if not any(line.runs or line.failed for line in (*own, *used)):
        return None
    intro = f"`{panel.dataset}`, {panel.clients} clients, partition `{panel.partition}`."
    if figure.chart in _COLUMNS:
        return PagePart(panel.label, (intro, Grid.of(_COLUMNS[figure.chart], own)))
    if own[0].target is not None:
        intro += f" Target accuracy {100 * own[0].target:.1f} %."
    learning = ["\n".join(f"Policy: {_learning(line)}" for line in used)] if used else []
    return PagePart(panel.label, (intro, Grid.of(_training_columns(own[0]), own), *learning))


def _learning(line: FigureLine) -> str:
    """What the learning of a policy has cost."""
    if not line.runs:
        return _failure(line)
    keys = ("seconds", "wall_s", "first_return", "last_return")
    seconds, wall_s, first, last = (mean_of(key)(line) for key in keys)
    return (
        f"learned in {mean_of('rounds', 0)(line)} rounds, {seconds} s of training ({wall_s} s in "
        f"all), cost {mean_of('cost', per=1e6)(line)}; mean return of the first {ENDS} episodes "
        f"{first}, of the last {ENDS} {last}."
    )


def _failure(line: FigureLine) -> str:
    return next((f"failed: {reason}" for reason in line.failed.values()), "not learned yet.")


def _training_columns(first: FigureLine) -> list[Column]:
    """What stands in the table of a panel; × is the ratio to the first line."""

    def ratio(key: str) -> Callable[[FigureLine], str]:
        def cell(line: FigureLine) -> str:
            ours, other = line.mean(key), first.mean(key)
            return pages.number(ours / other if ours is not None and other else None, 2)

        return cell

    return [
        ("", pages.label_text),
        ("test accuracy", pages.accuracy_text),
        ("seeds", pages.seeds_text),
        ("s to target", mean_of("target_seconds")),
        ("×", ratio("target_seconds")),
        ("cost to target", mean_of("target_cost", per=1e6)),
        ("×", ratio("target_cost")),
        ("s, all rounds", mean_of("seconds")),
        ("cost, all rounds", mean_of("cost", per=1e6)),
        ("MB to and from the server", mean_of("server_bytes_per_round", 3, per=1e6)),
        ("MB between clients", mean_of("peer_bytes_per_round", 3, per=1e6)),
    ]


_RETURN_COLUMNS: tuple[Column, ...] = (
    ("", pages.label_text),
    ("seeds", lambda line: pages.seeds_text(line) if line.runs else _failure(line)),
    ("episodes", mean_of("episodes", 0)),
    (f"return, first {ENDS}", mean_of("first_return")),
    (f"return, last {ENDS}", mean_of("last_return")),
    ("best", mean_of("best_return")),
    ("rounds", mean_of("rounds", 0)),
    ("s of training", mean_of("seconds")),
    ("whole run, s", mean_of("wall_s")),
    ("cost", mean_of("cost", per=1e6)),
)
_LOSS_COLUMNS: tuple[Column, ...] = (
    ("", pages.label_text),
    ("seeds", pages.seeds_text),
    ("generations", mean_of("generation", 0)),
    ("least federated loss", mean_of("best_loss", 3)),
    ("its spread", lambda line: pages.number(line.deviation("best_loss"), 3)),
    ("median federated loss", mean_of("median_loss", 3)),
    ("its spread", lambda line: pages.number(line.deviation("median_loss"), 3)),
    ("test accuracy", pages.accuracy_text),
    ("whole run, s", mean_of("wall_s", 0)),
)
#: What stands in the table of a panel, where it is not about training.
_COLUMNS: dict[ChartKind, tuple[Column, ...]] = {
    "returns": _RETURN_COLUMNS,
    "losses": _LOSS_COLUMNS,
}
