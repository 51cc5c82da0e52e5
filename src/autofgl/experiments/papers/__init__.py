"""What there is in the papers: what can be run again, whole or quickly, and where the rest is."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from autofgl.experiments.papers.asfgnn import ASFGNN_FIGURES, ASFGNN_TABLES
from autofgl.experiments.papers.fedgraph import FEDGRAPH_FIGURES
from autofgl.experiments.papers.fl_agcns import FL_AGCNS_TABLES
from autofgl.experiments.papers.fl_agcns import PAPER as _FL_AGCNS
from autofgl.experiments.papers.graphfl_ga import GRAPHFL_GA_TABLES
from autofgl.experiments.plan import Figure, Table, Variant

TABLES: dict[str, Table] = {
    table.name: table for table in (*FL_AGCNS_TABLES, *ASFGNN_TABLES, *GRAPHFL_GA_TABLES)
}
FIGURES: dict[str, Figure] = {
    figure.name: figure for figure in (*FEDGRAPH_FIGURES, *ASFGNN_FIGURES)
}


class View(NamedTuple):
    """A figure that is made of the runs of a table."""

    name: str  #: what the command line calls it
    title: str
    source: str  #: the paper, and the number of the figure there
    table: str  #: the table whose runs it needs
    rows: tuple[str, ...]  #: which of its rows; none: all
    part: str  #: where it stands on the table's page


_FIG_3 = View(
    "fl-agcns-fig3",
    "Best architectures of FL-AGCNS",
    f"{_FL_AGCNS}, Fig. 3",
    "fl-agcns-table3",
    ("fl-agcns",),
    "best-architectures",
)
_FIG_4 = View(
    "fl-agcns-fig4",
    "Accuracy against complexity",
    f"{_FL_AGCNS}, Fig. 4",
    "fl-agcns-table3",
    (),
    "accuracy-against-complexity",
)
VIEWS: dict[str, View] = {view.name: view for view in (_FIG_3, _FIG_4)}

#: Tables without results to run again, and where their content is here.
STATIC: tuple[tuple[str, str], ...] = (
    ("FL-AGCNS, Table 1: the search space", "src/autofgl/nn/space.py, conv/"),
    ("FL-AGCNS, Table 2: datasets", "autofgl datasets"),
    ("FedGraph, Table 1: datasets", "autofgl datasets"),
    ("ASFGNN, Table 1: notation", "docs/methods.md"),
    ("ASFGNN, Table 2: sizes of the clients", "data.json of each run, and its report"),
    ("ASFGNN, Table 4: best hyperparameters", "result.json of each asfgnn run, and its report"),
    ("GraphFL with GA, Fig. 6 to 10: accuracy by client", "reports of the runs of ga-table1 …"),
)

#: Time for each run of a quick table.
QUICK_BUDGET = "30s"
_QUICK_ROUNDS, _QUICK_FIGURE_ROUNDS = 100, 20
_QUICK_LEARNING: dict[str, Any] = {"episodes": 4, "episode_rounds": 8, "profile_rounds": 8}
_QUICK_NOTE = (
    "**Quick version**: {what}. It shows that everything runs and about where the figures lie; it "
    "is no reproduction."
)


def quick_table(table: Table) -> Table:
    """The first dataset with one seed; every run has the budget, fixed networks too."""
    what = (
        f"first dataset only, one seed, at most {QUICK_BUDGET} and {_QUICK_ROUNDS} rounds for each "
        "run"
    )
    variants = [
        replace(row, budgeted=True, seeds=1, settings=_fewer(row.settings, _QUICK_ROUNDS))
        for row in table.variants
    ]
    notes = (_QUICK_NOTE.format(what=what), *table.notes)
    return replace(table, settings=table.settings[:1], variants=variants, notes=notes)


def quick_figure(figure: Figure) -> Figure:
    """The first dataset with one seed and few rounds; a policy is learned in few episodes."""
    what = (
        f"first dataset only, one seed, {_QUICK_FIGURE_ROUNDS} rounds, policies learned in "
        f"{_QUICK_LEARNING['episodes']} episodes of {_QUICK_LEARNING['episode_rounds']} rounds"
    )
    first = figure.settings[0].group
    return replace(
        figure,
        settings=[panel for panel in figure.settings if panel.group == first],
        variants=[_quick_line(line) for line in figure.variants],
        rounds=min(figure.rounds, _QUICK_FIGURE_ROUNDS),
        seeds=1,
        notes=(_QUICK_NOTE.format(what=what), *figure.notes),
    )


def _quick_line(line: Variant) -> Variant:
    settings = line.settings
    if "rounds" in settings:
        settings = _fewer(settings, _QUICK_FIGURE_ROUNDS)
    if "episodes" in settings:
        settings = {**settings, **_QUICK_LEARNING}
    uses = None if line.uses is None else _quick_line(line.uses)
    return replace(line, settings=settings, uses=uses)


def _fewer(settings: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The same with at most so many rounds."""
    return {**settings, "rounds": min(int(settings.get("rounds", most)), most)}
