"""The tables and figures of ASFGNN: their definitions, and what is special about their pages."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from tiny import run as run_table

import autofgl
from autofgl.config import sort_settings
from autofgl.graphs.catalog import DataSettings, PartitionSettings
from autofgl.methods.catalog import find_method
from autofgl.reproduce.asfgnn_figures import ASFGNN_FIGURES
from autofgl.reproduce.asfgnn_tables import ASFGNN_TABLES
from autofgl.reproduce.cells import plan
from autofgl.reproduce.figure import Figure, Line, Panel
from autofgl.reproduce.figure_runner import reproduce as run_figure
from autofgl.reproduce.figure_runs import plan as plan_figure
from autofgl.reproduce.options import Options
from autofgl.reproduce.summary import Summary
from autofgl.reproduce.table import Column, Row, Table
from autofgl.reproduce.tuning_page import COMMON_GRID, JOINT_GRID, times
from autofgl.reproduce.tuning_time import Searched, searched

TABLES = {table.name: table for table in ASFGNN_TABLES}
#: A graph of a moment.
DATA: dict[str, Any] = {"nodes": 90, "classes": 3, "features": 12}


@pytest.mark.parametrize("table", ASFGNN_TABLES, ids=TABLES)
def test_every_cell_is_a_valid_run_with_two_clients(table: Table, out: Path) -> None:
    for cell in plan(table, Options(out, secure="shares")):
        config = cell.config(Options(out, secure="shares"))
        layers = sort_settings(config, find_method(config.method).Settings)
        assert config.clients == 2
        assert config.secure == (
            "shares" if "sfgnn" in config.method or cell.row.name == "fl" else "none"
        )
        assert layers.method.select == "accuracy"
        assert layers.partition.label_groups
        if config.method not in ("sfgnn", "asfgnn"):
            assert layers.method.model == "sfgnn", "the same network everywhere"
    places = {cell.folder(out) for cell in plan(table, Options(out))}
    assert len(places) == len(plan(table, Options(out)))


@pytest.mark.parametrize("figure", ASFGNN_FIGURES, ids=lambda figure: figure.name)
def test_every_run_of_a_figure_is_valid(figure: Figure, out: Path) -> None:
    for run in plan_figure(figure, Options(out)):
        config = run.config(Options(out))
        layers = sort_settings(config, find_method(config.method).Settings)
        if figure.name.endswith("3"):
            assert layers.partition.label_alpha == float(run.panel.level)
        else:
            assert config.clients == int(run.panel.level)
        assert layers.method.rounds == 200


def test_labels_that_overlap_have_hyper_parameters_of_their_own(out: Path) -> None:
    """At α = 1 they are those of Table 3, below SFGNN's others, in the table as in the figure."""
    third = {
        (cell.row.method, cell.column.name): cell.config(Options(out)).settings["lr"]
        for cell in plan(TABLES["asfgnn-table3"], Options(out))
    }
    figure = next(figure for figure in ASFGNN_FIGURES if figure.name == "asfgnn-fig3")
    rates = {
        (run.line.method, run.panel.name): run.config(Options(out)).settings["lr"]
        for run in plan_figure(figure, Options(out))
    }
    for (method, name), rate in rates.items():
        dataset, alpha = name.split("-")
        assert alpha != "1.0" or rate == third[method, dataset]
        assert alpha == "1.0" or method != "sfgnn" or rate != third[method, dataset]
    for cell in plan(TABLES["asfgnn-table6"], Options(out)):
        if cell.row.name == "with":
            rate = cell.config(Options(out)).settings["lr"]
            assert rate == rates["sfgnn", cell.column.name]


def test_the_paper_s_figures_by_their_averages() -> None:
    """The paper's own averages, so that a slip of a digit is seen."""
    third, fifth, sixth = (TABLES[f"asfgnn-table{number}"].paper for number in (3, 5, 6))
    averages = {"cm": 76.87, "fl": 84.07, "sp": 86.99, "sfgnn": 88.86}
    for name, average in averages.items():
        found = [figure.accuracy for (row, _), figure in third.items() if row == name]
        assert sum(found) / 3 == pytest.approx(average, abs=0.01)
    for name, average in {"fl": 72.73, "sfgnn": 77.85}.items():
        found = [figure.accuracy for (row, _), figure in fifth.items() if row == name]
        assert sum(found) / 2 == pytest.approx(average, abs=0.01)
    gains = [
        100 * (sixth["with", f"cora-{a}"].accuracy / sixth["without", f"cora-{a}"].accuracy - 1)
        for a in ("0.9", "0.8", "0.7", "0.6")
    ]
    assert gains == pytest.approx([3.26, 3.10, 3.06, 1.72], abs=0.02)


def test_accuracies_by_client_are_shown(out: Path) -> None:
    column = Column("two", "Two", "synthetic", 2, "labels", {**DATA, "rounds": 12, "hidden": 8})
    table = Table(
        "tiny", "Tiny", "Nobody", (column,),
        (
            Row("sp", "SP", "separate", "fixed", 1, {"model": "sfgnn", "select": "accuracy"}),
            Row("sfgnn", "SFGNN", "sfgnn", "fixed", 1, {"collect_models": True}),
            Row("stays", "Stays", "sfgnn", "fixed", 1),
        ),
        {}, by_client=True,
    )  # fmt: skip
    run_table(table, out)
    cells = {cell["row"]: cell for cell in json.loads((out / "table.json").read_text())["cells"]}
    graph = autofgl.load("synthetic", seed=0, settings=DataSettings(**DATA))
    clients = autofgl.partition(graph, 2, "labels", 0, PartitionSettings())
    for name in ("sp", "sfgnn"):
        folder = out / "two" / name / "seed-0"
        own, everybody = [], []
        for client in clients:
            labels = autofgl.predict(folder, client, client.name).label
            own.append((labels == client.y)[client.test_mask].mean())
            labels = autofgl.predict(folder, graph, client.name).label
            everybody.append((labels == graph.y)[graph.test_mask].mean())
        assert cells[name]["mean_test_accuracy"] == pytest.approx(sum(own) / 2)
        assert cells[name]["all_classes_accuracy"] == pytest.approx(sum(everybody) / 2)
        assert sum(everybody) < sum(own), "a network knows its own classes best"
    assert cells["stays"]["all_classes_accuracy"] is None
    assert "| mean over clients | all classes |" in (out / "table.md").read_text()


def test_trials_and_times_from_a_history() -> None:
    history = [
        {"wall_s": 1.0, "best_score": None},
        {"wall_s": 2.0, "trial_ended": "failed", "best_score": None},
        {"wall_s": 4.0, "trial_ended": "done", "best_score": 0.5},
        {"wall_s": 9.0, "trial_ended": "done", "best_score": 0.7},
        {"wall_s": 11.0, "phase": "train"},
    ]
    found = searched(history)
    assert found == Searched((None, 0.5, 0.7), (2.0, 4.0, 9.0))
    assert (found.best, found.seconds_per_trial) == (0.7, 3.0)
    assert found.reached(0.5) == (2, 4.0)
    assert found.reached(0.8) is None


def test_the_arithmetic_of_table_7() -> None:
    assert (COMMON_GRID, JOINT_GRID) == (800, 160_000)
    grid = Searched((0.5, 0.6, 0.6, 0.6), (36.0, 72.0, 108.0, 144.0))
    bayes = Searched((0.4, 0.6), (30.0, 60.0))
    own = Searched((0.5, 0.5, 0.7), (40.0, 80.0, 120.0))
    page = times([_cell("grid", grid), _cell("bayes", bayes), _cell("own", own)])
    common, joint = page.splitlines()[-2:]
    assert "| common | 4, 144 s, 60.0 | 2.0, 60 s | 144 / 60 = 2.4× |" in common
    assert "| 800 × 36.0 s = 8.0 h | 480× | 6.67 h / 0.39 h = 17.1× |" in common
    assert "| each client's own | 4, 144 s, 60.0 | 3.0, 120 s | 144 / 120 = 1.2× |" in joint
    assert "| 160,000 × 36.0 s = 1600.0 h | 48000× |" in joint
    worse = Searched((0.4, 0.5), (30.0, 60.0))
    page = times([_cell("grid", grid), _cell("bayes", worse)])
    assert "| 4, 144 s, 60.0 | not reached in 2 | – |" in page.splitlines()[-1]
    assert times([_cell("grid", grid)]) == "", "nothing to compare with"


def _cell(name: str, found: Searched) -> Any:
    row = Row(name, name, "asfgnn", "fixed", 1)
    return Summary(row, Column("cora", "Cora", "cora"), None, {}, {}, 1, {0: found})


def test_a_figure_over_levels(out: Path) -> None:
    panels = [
        Panel(f"a-{a}", a, "tiny", "synthetic", 2, "labels", {**DATA, "label_alpha": float(a)}, a)
        for a in ("0.6", "1.0")
    ]
    lines = (
        Line("sfgnn", "SFGNN", {"hidden": 8}, method="sfgnn"),
        Line("sp", "SP", {"hidden": 8, "model": "sfgnn"}, method="separate"),
    )
    figure = Figure(
        "tiny-fig", "Tiny", "Nobody", "Nothing.", "levels", panels, lines, 3, 1, axis="α"
    )
    run_figure(figure, Options(out), Console(quiet=True))
    text = (out / "summary.md").read_text()
    assert "| α | SFGNN (seeds) | SP (seeds) |" in text
    assert text.count("(1) |") == 4
    rows = (out / "figure.csv").read_text().splitlines()
    assert rows[0] == "panel,line,seed,x,y,val_accuracy,wall_s"
    assert [row.split(",")[3] for row in rows[1:]] == ["0.6", "0.6", "1.0", "1.0"]
    assert (out / "figure.svg").exists()
    assert "α" in (out / "figure.svg").read_text()
