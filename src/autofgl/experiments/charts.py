"""The charts and drawings on the pages of tables and figures, and in ``figure.svg``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from autofgl.errors import UserError
from autofgl.experiments.curves import Episode, TrainingPoint, mean_curve
from autofgl.experiments.plan import Figure, Setting, Table, Variant
from autofgl.experiments.summary import FigureLine, TableCell
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
}
_SPREAD = "Mean over seeds; the band, or whisker, is one standard deviation."


def figure_charts(figure: Figure, lines: Lines) -> dict[str, ChartRows]:
    """The charts of each file of a figure; none if nothing is finished."""
    done = [line for line in lines if line.runs]
    if not done:
        return {}
    match figure.chart:
        case "accuracy":
            return {
                "figure.svg": _curves(figure, done, "seconds", "test_accuracy"),
                "figure-cost.svg": _curves(figure, done, "cost", "test_accuracy"),
            }
        case "returns":
            return {"figure.svg": _curves(figure, done, "episode", "discounted_return")}
        case "levels":
            keys: tuple[str, ...] = ("test_accuracy",)
        case "target":
            keys = ("target_seconds", "target_cost")
        case "final":
            keys = ("test_accuracy", "seconds", "cost")
    return {"figure.svg": [_by_level(figure, done, key) for key in keys]}


def _curves(figure: Figure, lines: Lines, x: str, y: str) -> ChartRows:
    """A row for each dataset, its panels beside each other."""
    return [
        [_curve(figure, panel, lines, x, y) for panel in panels]
        for panels in _groups(lines).values()
    ]


def _curve(figure: Figure, panel: Setting, lines: Lines, x: str, y: str) -> Chart:
    series = []
    for variant in figure.variants:
        own = [line for line in _of(variant, lines) if line.setting == panel]
        points = [point for line in own for point in mean_curve(_points(line, x), x, y)]
        band = [(p.x, p.y, p.y - p.std, p.y + p.std) for p in points]
        series.append(Series.of(variant.label, band))
    (x_label, x_format), (y_label, y_format) = _AXES[x], _AXES[y]
    return Chart(
        f"{panel.label}: {y_label}",
        x_label,
        series,
        y_format,
        x_format,
        whole_x=x == "episode",
        log_x=x == "cost",  # samplers differ by orders of magnitude
        note=_SPREAD,
    )


def _points(line: FigureLine, x: str) -> list[Sequence[TrainingPoint | Episode]]:
    return [*line.learnings.values()] if x == "episode" else [*line.trainings.values()]


def _by_level(figure: Figure, lines: Lines, key: str) -> list[Chart]:
    """A chart for each dataset, a mark for each panel and variant; over the panels' levels where
    these are numbers.
    """
    numeric = figure.chart == "levels"
    label, form = _AXES[key]
    charts = []
    for group, panels in _groups(lines).items():
        levels = [panel.level for panel in panels]
        series = []
        for at, variant in enumerate(figure.variants):
            shift = (at - (len(figure.variants) - 1) / 2) * 0.12
            points = [
                (float(panel.level) if numeric else place + shift, *_whisker(line, key))
                for place, panel in enumerate(panels)
                for line in _of(variant, lines)
                if line.setting == panel
            ]
            series.append(Series.of(variant.label, points, joined=numeric))
        charts.append(
            Chart(
                f"{group}: {label}",
                figure.axis if numeric else "level",
                series,
                form,
                plain if numeric else partial(_level_name, levels),
                whole_x=not numeric,
                note=_SPREAD,
            )
        )
    return charts


def _level_name(levels: Sequence[str], place: float) -> str:
    return levels[round(place)] if 0 <= round(place) < len(levels) else ""


def _whisker(line: FigureLine, key: str) -> tuple[float | None, float | None, float | None]:
    """Mean, and the ends of its whisker."""
    mean, std = line.mean(key), line.deviation(key) or 0.0
    return (None, None, None) if mean is None else (mean, mean - std, mean + std)


def _of(variant: Variant, lines: Lines) -> list[FigureLine]:
    return [line for line in lines if line.variant.name == variant.name]


def _groups(lines: Lines) -> dict[str, list[Setting]]:
    """The panels that have something to show, by dataset."""
    groups: dict[str, list[Setting]] = {}
    for line in lines:
        panels = groups.setdefault(line.setting.group, [])
        if line.setting not in panels:
            panels.append(line.setting)
    return groups


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
        _complexity_chart(f"{column.label}, {whose}", table.variants, column, costs)
        for column in table.settings
        for whose, costs in (("the paper", paper), ("ours", ours))
    ]
    return [chart for chart in charts if len(chart.shown) > 1]


def _complexity_chart(
    title: str,
    rows: Sequence[Variant],
    column: Setting,
    costs: Mapping[tuple[str, str], Cost],
) -> Chart:
    """A mark for each row, the same in every chart."""
    own = {name: cost for (name, place), cost in costs.items() if place == column.name}
    places = complexity(own)
    series = []
    for row in rows:
        points = [(places[row.name], own[row.name].accuracy)] if row.name in own else []
        series.append(Series.of(row.label, points, joined=False))
    note = "Up and to the left is better."
    return Chart(title, "complexity", series, percent, plain, whole_x=False, note=note)


def best_architectures(cells: Sequence[TableCell]) -> Section | None:
    """For every search and dataset the network of the seed with the best validation accuracy
    (FL-AGCNS, Fig. 3).
    """
    drawings = [drawing for cell in cells if (drawing := _architecture(cell)) is not None]
    if not drawings:
        return None
    note = element(
        "p", "Of each search the seed with the highest validation accuracy.", class_="note"
    )
    return Section("Best architectures", [note, element("div", drawings, class_="charts")])


def _architecture(cell: TableCell) -> Safe | None:
    if not cell.runs:
        return None
    seed, run = max(cell.runs.items(), key=lambda entry: entry[1]["val_accuracy"])
    try:
        spec = SearchedSpec(str(run["architecture"]), in_features=1, classes=1)
    except UserError:
        return None  # a fixed network
    title = f"{cell.variant.label}, {cell.setting.label}, seed {seed}"
    drawing = element(
        "div",
        draw_network(spec, sizes=False),
        class_="scroll",
        role="region",
        aria_label=title,
        tabindex=0,
    )
    caption = element("figcaption", title)
    return element("figure", caption, element("p", element("code", spec.genotype)), drawing)
