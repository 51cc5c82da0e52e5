"""The charts and drawings on the pages of tables and figures, and in ``figure.svg``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from autofgl.errors import UserError
from autofgl.experiments.curves import finished_history, mean_curve, round_curve
from autofgl.experiments.plan import (
    ChartKind,
    Figure,
    Leaderboard,
    Options,
    Setting,
    Table,
    Variant,
)
from autofgl.experiments.summary import FigureLine, Summary, TableCell
from autofgl.nn.models.spec import SearchedSpec
from autofgl.report.charts import Chart, Series
from autofgl.report.charts.network import draw_network
from autofgl.report.numbers import Format, count, percent, plain, seconds
from autofgl.report.page import Safe, Section, element

Lines: TypeAlias = Sequence[FigureLine]
#: Charts in rows, as they stand in a file.
ChartRows: TypeAlias = list[list[Chart]]

#: What is on the axes, and how it is written.
_AXES: dict[str, tuple[str, Format]] = {
    "seconds": ("seconds of training", seconds),
    "cost": ("cost (sampled edges × width)", count),
    "test_accuracy": ("test accuracy", percent),
    "target_seconds": ("seconds to the target", seconds),
    "target_cost": ("cost to the target", count),
    "episode": ("episode", count),
    "discounted_return": ("discounted return", plain),
    "generation": ("generation", count),
    "best_loss": ("least federated loss", plain),
    "median_loss": ("median federated loss", plain),
}
#: Of figures with curves: x and y of each file.
_CURVES: dict[ChartKind, dict[str, tuple[str, str]]] = {
    "accuracy": {
        "figure.svg": ("seconds", "test_accuracy"),
        "figure-cost.svg": ("cost", "test_accuracy"),
    },
    "returns": {"figure.svg": ("episode", "discounted_return")},
    "losses": {
        "figure.svg": ("generation", "best_loss"),
        "figure-median.svg": ("generation", "median_loss"),
    },
}
#: Of figures with marks over levels: y of each row of charts.
_MARKS: dict[ChartKind, tuple[str, ...]] = {
    "levels": ("test_accuracy",),
    "target": ("target_seconds", "target_cost"),
    "final": ("test_accuracy", "seconds", "cost"),
}
_SPREAD = "Mean over seeds; the band, or whisker, is one standard deviation."


def figure_charts(figure: Figure, lines: Lines) -> dict[str, ChartRows]:
    """The charts of each file of a figure, by dataset; none if nothing is finished."""
    done = [line for line in lines if line.runs]
    groups: dict[str, dict[str, Setting]] = {}
    for line in done:
        groups.setdefault(line.setting.group, {})[line.setting.name] = line.setting
    if not done:
        return {}
    if figure.chart in _CURVES:
        return {
            name: [
                [_curve(figure, panel, done, x, y) for panel in panels.values()]
                for panels in groups.values()
            ]
            for name, (x, y) in _CURVES[figure.chart].items()
        }
    marks = _MARKS[figure.chart]
    return {
        "figure.svg": [
            [_by_level(figure, *one, done, key) for one in groups.items()] for key in marks
        ]
    }


def _curve(figure: Figure, panel: Setting, lines: Lines, x: str, y: str) -> Chart:
    series = []
    for variant in figure.variants:
        points = [
            (point.x, point.y, point.y - point.std, point.y + point.std)
            for line in _of(variant, panel, lines)
            for point in mean_curve(line.curves.values(), x, y)
        ]
        series.append(Series.of(variant.label, points))
    (x_label, x_format), (y_label, y_format) = _AXES[x], _AXES[y]
    return Chart(
        f"{panel.label}: {y_label}",
        x_label,
        series,
        y_format,
        x_format,
        whole_x=x in ("episode", "generation"),
        log_x=x == "cost",  # samplers differ by orders of magnitude
        note=_SPREAD,
    )


def _by_level(
    figure: Figure, group: str, panels: Mapping[str, Setting], lines: Lines, key: str
) -> Chart:
    """A mark for each panel and variant; over the panels' levels where these are numbers."""
    numeric = figure.chart == "levels"
    label, form = _AXES[key]
    series = []
    for at, variant in enumerate(figure.variants):
        shift = (at - (len(figure.variants) - 1) / 2) * 0.12
        points = [
            (float(panel.level) if numeric else place + shift, *line.whisker(key))
            for place, panel in enumerate(panels.values())
            for line in _of(variant, panel, lines)
        ]
        series.append(Series.of(variant.label, points, joined=numeric))
    return Chart(
        f"{group}: {label}",
        figure.axis if numeric else "level",
        series,
        form,
        plain if numeric else partial(_level_name, [panel.level for panel in panels.values()]),
        whole_x=not numeric,
        note=_SPREAD,
    )


def cut_charts(board: Leaderboard, columns: Mapping[str, Sequence[Summary]]) -> list[Chart]:
    """Test accuracy of all methods over the cuts of each dataset; none for a single cut."""
    groups: dict[str, list[Setting]] = {}
    for setting in board.settings:
        groups.setdefault(setting.dataset or "", []).append(setting)
    labels = list(dict.fromkeys(board.entries.values()))
    return [
        _cut_chart(name, cuts, labels, columns) for name, cuts in groups.items() if len(cuts) > 1
    ]


def _cut_chart(
    name: str,
    cuts: Sequence[Setting],
    labels: Sequence[str],
    columns: Mapping[str, Sequence[Summary]],
) -> Chart:
    series = []
    for at, label in enumerate(labels):
        shift = (at - (len(labels) - 1) / 2) * min(0.12, 0.6 / len(labels))
        points = [
            (place + shift, *cell.whisker("test_accuracy"))
            for place, cut in enumerate(cuts)
            for cell in columns[cut.name]
            if cell.variant.label == label and cell.runs
        ]
        series.append(Series.of(label, points, joined=False))
    levels = partial(_level_name, [cut.level for cut in cuts])
    return Chart(f"{name}: test accuracy", "cut", series, percent, levels, note=_SPREAD)


def _level_name(levels: Sequence[str], place: float) -> str:
    return levels[round(place)] if 0 <= round(place) < len(levels) else ""


def _of(variant: Variant, panel: Setting, lines: Lines) -> list[FigureLine]:
    own = (line for line in lines if line.setting == panel)
    return [line for line in own if line.variant.name == variant.name]


class Cost(NamedTuple):
    """Parameters and inference time of a network, in whatever unit, and its accuracy."""

    parameters: float
    seconds: float
    accuracy: float = 0.0


def complexity(costs: Mapping[str, Cost]) -> dict[str, float]:
    """½ (Params / max Params + Time / max Time), by name (FL-AGCNS, Fig. 4)."""
    if not costs:
        return {}
    parameters = max(cost.parameters for cost in costs.values())
    seconds_ = max(cost.seconds for cost in costs.values())
    return {
        name: (cost.parameters / parameters + cost.seconds / seconds_) / 2
        for name, cost in costs.items()
    }


def complexity_charts(table: Table, cells: Sequence[TableCell]) -> list[Chart]:
    """Accuracy against complexity, two charts for each dataset: the paper's and ours."""
    paper = {
        place: Cost(one.parameters, one.seconds, one.accuracy / 100)
        for place, one in table.paper.items()
        if one.parameters and one.seconds
    }
    ours = {
        (cell.variant.name, cell.setting.name): Cost(parameters, seconds_, accuracy)
        for cell in cells
        if (parameters := cell.mean("parameters")) and (seconds_ := cell.mean("inference_s"))
        if (accuracy := cell.mean("test_accuracy")) is not None
    }
    charts = [
        _complexity_chart(
            f"{column.label}, {whose}",
            table.variants,
            {name: cost for (name, place), cost in costs.items() if place == column.name},
        )
        for column in table.settings
        for whose, costs in (("the paper", paper), ("ours", ours))
    ]
    return [chart for chart in charts if len(chart.shown) > 1]


def round_charts(table: Table, options: Options, cells: Sequence[TableCell]) -> list[Chart]:
    """Test accuracy by round, a chart for each column with finished runs."""
    charts = []
    for column in table.settings:
        series = []
        for cell in cells:
            if cell.setting != column or not cell.runs:
                continue
            histories = (finished_history(cell.folder(options, seed)) for seed in cell.runs)
            curve = mean_curve(map(round_curve, histories), "round", "test_accuracy")
            points = [(at, mean, mean - std, mean + std) for at, mean, std in curve]
            series.append(Series.of(cell.variant.label, points))
        if series:
            charts.append(Chart(column.label, "round", series, percent, count, note=_SPREAD))
    return charts


def _complexity_chart(title: str, rows: Sequence[Variant], costs: Mapping[str, Cost]) -> Chart:
    """A mark for each row, the same in every chart."""
    places = complexity(costs)
    series = []
    for row in rows:
        points = [(places[row.name], costs[row.name].accuracy)] if row.name in costs else []
        series.append(Series.of(row.label, points, joined=False))
    note = "Up and to the left is better."
    return Chart(title, "complexity", series, percent, plain, whole_x=False, note=note)


def best_architectures(cells: Sequence[TableCell]) -> Section | None:
    """For every search and dataset the network of the seed with the best validation accuracy
    (FL-AGCNS, Fig. 3).
    """
    drawings = [drawing for cell in cells if (drawing := _architecture(cell)) is not None]
    words = "Of each search the seed with the highest validation accuracy."
    body = [element("p", words, class_="note"), element("div", drawings, class_="charts")]
    return Section("Best architectures", body) if drawings else None


def _architecture(cell: TableCell) -> Safe | None:
    if not cell.runs:
        return None
    seed, run = max(cell.runs.items(), key=lambda entry: entry[1]["val_accuracy"])
    try:
        spec = SearchedSpec(str(run["architecture"]), in_features=1, classes=1)
    except UserError:
        return None  # a fixed network
    title = f"{cell.variant.label}, {cell.setting.label}, seed {seed}"
    network = draw_network(spec, sizes=False)
    return element(
        "figure",
        element("figcaption", title),
        element("p", element("code", spec.genotype)),
        element("div", network, class_="scroll", role="region", aria_label=title, tabindex=0),
    )
