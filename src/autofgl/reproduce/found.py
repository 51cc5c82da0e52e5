"""The networks that searches have found, drawn (FL-AGCNS, Fig. 3)."""

from collections.abc import Sequence

from autofgl.errors import UserError
from autofgl.nn.models.spec import SearchedSpec
from autofgl.report.charts.network import draw_network
from autofgl.report.page import Safe, Section, element
from autofgl.reproduce.summary import Summary


def found_architectures(cells: Sequence[Summary]) -> Section | None:
    """For every search and dataset the network of the seed with the best validation accuracy."""
    drawn = [figure for cell in cells if (figure := _drawn(cell)) is not None]
    if not drawn:
        return None
    note = element(
        "p", "Of each search the seed with the highest validation accuracy.", class_="note"
    )
    return Section("Found architectures", [note, element("div", drawn, class_="charts")])


def _drawn(cell: Summary) -> Safe | None:
    if not cell.runs:
        return None
    seed, run = max(cell.runs.items(), key=lambda entry: entry[1]["val_accuracy"])
    try:
        spec = SearchedSpec(str(run["architecture"]), in_features=1, classes=1)
    except UserError:
        return None  # a fixed network
    title = f"{cell.row.label}, {cell.column.label}, seed {seed}"
    drawing = element(
        "div",
        draw_network(spec, sizes=False),
        class_="scroll",
        role="region",
        aria_label=title,
        tabindex=0,
    )
    return element(
        "figure",
        element("figcaption", title),
        element("p", element("code", spec.genotype)),
        drawing,
    )
