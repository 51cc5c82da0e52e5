"""What there is in the papers: what can be run again, and where the rest is."""

from typing import NamedTuple


class View(NamedTuple):
    """A figure that is drawn from the runs of a table.

    Attributes:
        name: What the command line calls it.
        title: What it shows.
        source: The paper and the number of the figure there.
        table: The table whose runs it needs.
        rows: Which of its rows; none: all.
        part: Where it stands on the table's page.
    """

    name: str
    title: str
    source: str
    table: str
    rows: tuple[str, ...]
    part: str


_FL_AGCNS = "Wang, Chen, Li, Wang: FL-AGCNS, 2021"

VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        View(
            "fl-agcns-fig3",
            "Architectures that FL-AGCNS found",
            f"{_FL_AGCNS}, Fig. 3",
            "fl-agcns-table3",
            ("fl-agcns",),
            "found-architectures",
        ),
        View(
            "fl-agcns-fig4",
            "Accuracy against complexity",
            f"{_FL_AGCNS}, Fig. 4",
            "fl-agcns-table3",
            (),
            "accuracy-against-complexity",
        ),
    )
}

#: Tables without results to run again, and where their content is here.
STATIC: tuple[tuple[str, str], ...] = (
    ("FL-AGCNS, Table 1: the search space", "src/autofgl/nn/space.py, conv/"),
    ("FL-AGCNS, Table 2: datasets", "autofgl datasets"),
    ("FedGraph, Table 1: datasets", "autofgl datasets"),
    ("ASFGNN, Table 1: notation", "docs/methods.md"),
    ("ASFGNN, Table 2: sizes of the clients", "data.json of each run, and its report"),
    ("ASFGNN, Table 4: best hyper-parameters", "result.json of each asfgnn run, and its report"),
    (
        "GraphFL with GA, Fig. 6 to 10: accuracy by client",
        "reports of the runs of ga-table1 …",
    ),
)
