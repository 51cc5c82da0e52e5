from pathlib import Path

import pytest

from autofgl.config import sort_settings
from autofgl.experiments.papers import TABLES
from autofgl.experiments.plan import Options, Table, plan
from autofgl.graphs.catalog import DATASETS, PARTITIONERS
from autofgl.nn.models.spec import FAMILIES

FL_AGCNS = [name for name in TABLES if name.startswith("fl-agcns")]


@pytest.fixture(params=FL_AGCNS)
def table(request: pytest.FixtureRequest) -> Table:
    return TABLES[request.param]


def test_every_cell_is_a_valid_run(table: Table, out: Path) -> None:
    for cell in plan(table, Options(out)):
        config = cell.config(Options(out))
        assert config.dataset in DATASETS
        assert config.partition in PARTITIONERS
        assert config.settings.get("model", "gcn") in FAMILIES
        assert (config.budget is None) == (cell.variant.method == "fedavg")
        method = sort_settings(config).method
        protocol = (method.lr, method.weight_decay, method.dropout, method.rounds, method.select)
        noted = (0.2, 1e-4) if cell.variant.name == "sgc" else (0.01, 5e-4)
        assert protocol == (*noted, 0.5, 600, "loss"), "as the table's notes say"
        assert method.patience == 100


def test_every_cell_has_a_figure_of_the_paper(table: Table) -> None:
    names = {(row.name, column.name) for row in table.variants for column in table.settings}
    assert set(table.paper) == names
    assert len(names) == len(table.variants) * len(table.settings), "names are unique"
    assert all(1 < figure.accuracy < 100 for figure in table.paper.values()), "percent"
    assert all(0 < (figure.parameters or 0) < 2 for figure in table.paper.values()), "millions"


def test_the_figures_of_table_3_by_column() -> None:
    """The sums of the paper's columns, so that a slip of a digit is seen."""
    paper = TABLES["fl-agcns-table3"].paper
    sums = {
        column: (
            sum(figure.accuracy for (_, name), figure in paper.items() if name == column),
            sum(figure.parameters or 0 for (_, name), figure in paper.items() if name == column),
        )
        for column in ("cora", "citeseer", "pubmed")
    }
    # 82.9+65.4+75.6+79.8+79.0+78.8+81.3+78.1+82.2+81.2+75.2+76.6 and so on
    assert sums["cora"] == pytest.approx((936.1, 1.089))
    assert sums["citeseer"] == pytest.approx((760.9, 2.891))
    assert sums["pubmed"] == pytest.approx((905.2, 0.507))


def test_the_fourth_table_and_the_times_are_copied_rightly() -> None:
    """The sums of all columns of the paper's text."""
    third, fourth, _ = (TABLES[name] for name in FL_AGCNS)
    for column, sums in {
        "corafull": (620.5, 7.197, 6.7921),
        "physics": (825.1, 6.230, 5.8262),
    }.items():
        own = [fourth.paper[row.name, column] for row in fourth.variants]
        assert sum(cell.accuracy for cell in own) == pytest.approx(sums[0])
        assert sum(cell.parameters or 0 for cell in own) == pytest.approx(sums[1])
        times = [cell.seconds or 0 for cell in own]
        assert sum(times) == pytest.approx(sums[2])
    for column, total in {"cora": 0.3846, "citeseer": 1.3038, "pubmed": 0.6008}.items():
        times = [third.paper[row.name, column].seconds or 0 for row in third.variants]
        assert sum(times) == pytest.approx(total)


def test_the_protocol_of_the_tables() -> None:
    third, fourth, fifth = (TABLES[name] for name in FL_AGCNS)
    assert third.seeds == fifth.seeds == 5
    assert {(row.budgeted, row.seeds) for row in third.variants} == {(True, None), (False, 5)}
    assert {row.seeds for row in fourth.variants} == {1}
    assert [(column.clients, column.partition) for column in third.settings] == [(3, "metis")] * 3
    assert [(column.clients, column.partition) for column in fourth.settings] == [
        (3, "metis"), (8, "metis")
    ]  # fmt: skip
    ablations = {
        row.name: (row.settings.get("optimizers"), row.partition) for row in fifth.variants
    }
    assert ablations == {
        "full": (None, None),
        "controller": ("controller", None),
        "clients": ("clients", None),
        "random-partition": (None, "random"),
    }
