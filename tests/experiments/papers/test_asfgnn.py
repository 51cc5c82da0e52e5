"""The definitions of ASFGNN's tables and figures; nothing is run."""

from pathlib import Path

import pytest

from autofgl.config import sort_settings
from autofgl.experiments.papers import FIGURES, TABLES
from autofgl.experiments.plan import Figure, Options, Table, plan

ASFGNN_TABLES = [table for name, table in TABLES.items() if name.startswith("asfgnn")]
ASFGNN_FIGURES = [figure for name, figure in FIGURES.items() if name.startswith("asfgnn")]


@pytest.mark.parametrize("table", ASFGNN_TABLES, ids=lambda table: table.name)
def test_every_cell_is_a_valid_run_with_two_clients(table: Table, out: Path) -> None:
    for cell in plan(table, Options(out, secure="shares")):
        config = cell.config(Options(out, secure="shares"))
        layers = sort_settings(config)
        assert config.clients == 2
        assert config.secure == (
            "shares" if "sfgnn" in config.method or cell.variant.name == "fl" else "none"
        )
        assert layers.method.select == "accuracy"
        assert layers.partition.label_groups
        if config.method not in ("sfgnn", "asfgnn"):
            assert layers.method.model == "sfgnn", "the same network everywhere"
    places = {cell.folder(out) for cell in plan(table, Options(out))}
    assert len(places) == len(plan(table, Options(out)))


@pytest.mark.parametrize("figure", ASFGNN_FIGURES, ids=lambda figure: figure.name)
def test_every_run_of_a_figure_is_valid(figure: Figure, out: Path) -> None:
    for run in plan(figure, Options(out)):
        config = run.config(Options(out))
        layers = sort_settings(config)
        if figure.name.endswith("3"):
            assert layers.partition.label_alpha == float(run.setting.level)
        else:
            assert config.clients == int(run.setting.level)
        assert layers.method.rounds == 200


def test_labels_that_overlap_have_hyper_parameters_of_their_own(out: Path) -> None:
    """At α = 1 they are those of Table 3, below SFGNN's others, in the table as in the figure."""
    third = {
        (cell.variant.method, cell.setting.name): cell.config(Options(out)).settings["lr"]
        for cell in plan(TABLES["asfgnn-table3"], Options(out))
    }
    figure = FIGURES["asfgnn-fig3"]
    rates = {
        (run.variant.method, run.setting.name): run.config(Options(out)).settings["lr"]
        for run in plan(figure, Options(out))
    }
    for (method, name), rate in rates.items():
        dataset, alpha = name.split("-")
        assert alpha != "1.0" or rate == third[method, dataset]
        assert alpha == "1.0" or method != "sfgnn" or rate != third[method, dataset]
    for cell in plan(TABLES["asfgnn-table6"], Options(out)):
        if cell.variant.name == "with":
            rate = cell.config(Options(out)).settings["lr"]
            assert rate == rates["sfgnn", cell.setting.name]


def test_the_paper_s_figures_by_their_averages() -> None:
    """The paper's own averages, so that a slip of a digit is seen."""
    third, fifth, sixth = (TABLES[f"asfgnn-table{number}"].paper for number in (3, 5, 6))
    averages = {"cm": 76.87, "fl": 84.07, "sp": 86.99, "sfgnn": 88.86}
    for name, average in averages.items():
        accuracies = [figure.accuracy for (row, _), figure in third.items() if row == name]
        assert sum(accuracies) / 3 == pytest.approx(average, abs=0.01)
    for name, average in {"fl": 72.73, "sfgnn": 77.85}.items():
        accuracies = [figure.accuracy for (row, _), figure in fifth.items() if row == name]
        assert sum(accuracies) / 2 == pytest.approx(average, abs=0.01)
    gains = [
        100 * (sixth["with", f"cora-{a}"].accuracy / sixth["without", f"cora-{a}"].accuracy - 1)
        for a in ("0.9", "0.8", "0.7", "0.6")
    ]
    assert gains == pytest.approx([3.26, 3.10, 3.06, 1.72], abs=0.02)
