from pathlib import Path

import pytest

import autofgl
from autofgl.config import sort_settings
from autofgl.experiments.papers import TABLES, VIEWS
from autofgl.experiments.plan import Options, Table, plan
from autofgl.experiments.tables import TablePages
from autofgl.graphs.catalog import PARTITIONERS, DataSettings, PartitionSettings

GRAPHFL_GA_TABLES = [table for name, table in TABLES.items() if name.startswith("ga-")]


@pytest.fixture(params=GRAPHFL_GA_TABLES, ids=lambda table: table.name)
def table(request: pytest.FixtureRequest) -> Table:
    param: Table = request.param
    return param


def test_every_cell_is_a_valid_run(table: Table, out: Path) -> None:
    budgets = set()
    for cell in plan(table, Options(out)):
        config = cell.config(Options(out))
        assert config.budget is None
        assert config.partition in PARTITIONERS
        layers = sort_settings(config)
        assert layers.method.rounds == 20
        assert layers.method.select == "last"
        if config.method == "graphfl-ga":
            method = layers.method
            budgets.add((method.population, method.iterations, method.retention, method.mode))
    assert {budget[:2] for budget in budgets} == {(20, 10)}, "the paper's"
    assert len(budgets) == 1, "searches have the same budget"


def test_the_papers_figures() -> None:
    def figures(number: int) -> dict[str, list[float]]:
        table = GRAPHFL_GA_TABLES[number - 1]
        return {
            row.name: [table.paper[row.name, column.name].accuracy for column in table.settings
                       if (row.name, column.name) in table.paper]
            for row in table.variants
        }  # fmt: skip

    none: dict[str, list[float]] = {"graphfl-tuned": [], "graphfl-descent": [], "random": []}
    rates = {"ga-rates": [74.80], "ga-rates-random": [76.24]}
    assert figures(1) == {"graphfl": [73.91], "graphfl-ga": [83.26], **rates, **none}
    assert figures(2) == {"graphfl": [74.31, 74.09], "graphfl-ga": [83.24, 83.26], **none}
    assert figures(3) == {"graphfl": [81.03], "graphfl-ga": [83.97], **none}
    assert figures(4) == {"graphfl": [77.12], "graphfl-ga": [78.78], **none}
    assert figures(5) == {
        "graphfl": [73.25, 76.32, 74.75], "graphfl-ga": [80.54, 81.02, 81.50], **none,
    }  # fmt: skip


def test_the_settings_of_the_columns() -> None:
    first, second, third, fourth, fifth = GRAPHFL_GA_TABLES
    assert [column.clients for column in first.settings] == [6] * 5
    assert [column.shared["participation"] for column in second.settings] == [0.1, 0.2]
    assert {column.clients for column in second.settings} == {50}
    assert (third.settings[0].partition, third.settings[0].clients) == ("shared", 5)
    assert fourth.settings[0].shared["unseen_classes"] == 2
    assert [column.shared["train_per_class"] for column in fifth.settings] == [14, 16, 17]
    assert {column.clients for column in fifth.settings} == {20}


def test_the_page_says_what_a_column_sets(out: Path) -> None:
    table = GRAPHFL_GA_TABLES[1]
    page = TablePages(table, Options(out)).files()["table.md"]
    assert "50 clients, partition `random`, `participation=0.1`, `whole_graph=True`." in page
    assert "| GraphFL with GA | 83.2 | – | – | – |" in page


def test_fourteen_labeled_nodes_per_class() -> None:
    graph = autofgl.load("cora", settings=DataSettings(train_per_class=14))
    clients = autofgl.partition(graph, 20, "random", 0)
    assert sum(int(client.train_mask.sum()) for client in clients) == 14 * 7


def test_a_fifth_of_a_clients_nodes_is_shared() -> None:
    graph = autofgl.load("cora")
    clients = autofgl.partition(
        graph, 5, "shared", 0, settings=PartitionSettings(shared_nodes=0.2)
    )  # fmt: skip
    sizes = [client.num_nodes for client in clients]
    assert sizes == pytest.approx([2708 / 5 / 0.8] * 5, abs=2)
    nodes = [set(client.node_id.tolist()) for client in clients]
    assert set.union(*nodes) == set(range(2708)), "nobody's node is lost"
    assert sum(sizes) == pytest.approx(2708 / 0.8, abs=10)


def test_figures_are_made_of_the_tables() -> None:
    views = [view for name, view in VIEWS.items() if name.startswith("ga-fig")]
    assert [view.name for view in views] == [f"ga-fig{number}" for number in range(6, 11)]
    assert [view.table for view in views] == [table.name for table in GRAPHFL_GA_TABLES]
    assert all(table.by_round for table in GRAPHFL_GA_TABLES)
