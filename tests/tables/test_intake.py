"""What becomes of columns, times, weights and rows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autofgl.errors import GraphError, UserError
from autofgl.graphs.client_graph import to_dense
from autofgl.graphs.files import load_graph, load_graphs
from autofgl.graphs.origin import common_schema, read_origin
from autofgl.tables.draft import draft_schema, extend_schema, guess_kind
from autofgl.tables.encode import bucket, day_of, encode_column
from autofgl.tables.intake import import_tables
from autofgl.tables.schema import Column, Schema
from autofgl.tables.table import read_table

NODES: dict[str, list[Any]] = {
    "id": ["a", "b", "c", "d"],
    "size": [1.0, 3.0, None, 2],
    "kind": ["x", "y", "x", "y"],
    "seen": ["2024-01-01", "2024-01-11", "2024-01-21", "2024-01-31"],
    "label": ["no", "yes", "", "no"],
}
EDGES: dict[str, list[Any]] = {"src": ["a", "b", "a"], "dst": ["b", "a", "c"], "w": [1, 2, 5]}


def features(**changes: list[Any]) -> Any:
    imported = import_tables({**NODES, **changes}, EDGES, label="label")
    return to_dense(imported.graph.x)


def test_columns_become_features_by_hand() -> None:
    x = features()
    size = np.array([1.0, 3.0, 2.0])
    scaled = (size - 2) / float(f"{size.std():.6g}")
    assert np.allclose(x[[0, 1, 3], 0], scaled, atol=1e-6)
    assert x[2, :2].tolist() == [0, 1], "the mean, and that it is missing"
    assert x[:, 2:4].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    days = np.array([0, 10, 20, 30]) - 15
    assert np.allclose(x[:, 4], days / float(f"{days.std():.6g}"), atol=1e-5)
    phase = 2 * math.pi * 19723 / 365.25  # 1 January 2024
    assert np.allclose(x[0, 5:7], [math.sin(phase), math.cos(phase)], atol=1e-5)
    assert x.shape == (4, 7)


def test_labels_ids_and_edges() -> None:
    imported = import_tables(NODES, EDGES, label="label", weight="w")
    graph = imported.graph
    assert graph.y.tolist() == [0, 1, -1, 0]
    assert imported.names == ("a", "b", "c", "d")
    assert graph.edge_index.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2, 5, 2, 5], "the larger of the two directions"
    directed = import_tables(NODES, EDGES, label="label", directed=True).graph
    assert directed.edge_index.tolist() == [[0, 1, 0], [1, 0, 2]]
    assert directed.directed


def test_a_split_by_time(tmp_path: Path) -> None:
    dates = {"val_from": "2024-01-05", "test_from": "2024-01-25"}
    imported = import_tables(NODES, EDGES, label="label", time="seen", **dates)
    masks = {part: getattr(imported.graph, f"{part}_mask").tolist()
             for part in ("train", "val", "test")}  # fmt: skip
    assert masks == {
        "train": [True, False, False, False],
        "val": [False, True, False, False],  # c has no label
        "test": [False, False, False, True],
    }
    assert "seen" not in imported.schema.columns, "what the split is by is no feature"
    imported.save(tmp_path / "g.npz")
    assert load_graph(tmp_path / "g.npz", seed=5).train_mask.tolist() == masks["train"]
    with pytest.raises(GraphError, match="nothing to train on"):
        import_tables(NODES, EDGES, label="label", time="seen", val_from="2020-01-01",
                      test_from="2021-01-01")  # fmt: skip
    with pytest.raises(UserError, match="in this order"):
        import_tables(NODES, EDGES, label="label", time="seen", val_from="2024-02-01",
                      test_from="2024-01-01")  # fmt: skip


def test_without_times_a_run_draws_its_own_split(tmp_path: Path) -> None:
    many = {"id": list(range(40)), "v": list(range(40)), "label": [0, 1] * 20}
    imported = import_tables(many, {"src": [0], "dst": [1]}, label="label")
    imported.save(tmp_path / "g.npz")
    splits = [load_graph(tmp_path / "g.npz", seed=seed).train_mask for seed in (0, 1)]
    assert not np.array_equal(*splits)
    assert read_origin(tmp_path / "g.npz").names == tuple(map(str, range(40)))


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "-3e2", ""], "number"),
        (["2024-01-01", "2024-01-01T12:30:00Z"], "date"),
        (["red", "blue", "red", "blue"], "category"),
        ([f"code {i % 90}" for i in range(200)], "hash"),
        ([f"it was a dark and stormy night {i}" for i in range(30)], "text"),
        ([f"id-{i}" for i in range(60)], "drop"),
        (["", "NA"], "drop"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_kind_is_guessed(cells: list[str], kind: str) -> None:
    table = read_table({"c": cells})
    assert guess_kind(table, "c", table.columns["c"]) == kind


def test_hashes_and_words_are_the_same_everywhere() -> None:
    assert bucket("fraud", 32) == 7
    text = Column("text", buckets=8)
    block = encode_column("note", text, ["Late, late paid", ""])
    assert block.x[0, bucket("late", 8)] >= np.float32(np.log1p(2))
    assert block.bad == {1: "'note' is empty, and the schema has no missing values of it "
                            "(missing: true)"}  # fmt: skip
    one = encode_column("code", Column("hash", buckets=8), ["A1"]).x
    assert one.sum() == 1


def test_dates_in_other_forms() -> None:
    assert day_of("1970-01-02") == 1
    assert day_of("1970-01-02T12:00:00+12:00") == 1
    assert day_of("1700000000") == 1700000000 / 86400
    assert day_of("02.01.1970", "%d.%m.%Y") == 1
    assert math.isnan(day_of("yesterday"))


def test_other_takes_categories_that_are_new() -> None:
    block = encode_column("kind", Column("category", ("a", "b"), other=True), ["b", "z"])
    assert block.x.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert not block.bad


def test_a_schema_is_extended_as_if_the_tables_were_one() -> None:
    left = {"id": [1, 2, 3], "v": [1.0, 2, 6], "k": ["a", "b", "a"], "y": ["no", "no", "yes"]}
    right = {"id": [1, 2, 3, 4], "v": [9.0, "", 4, 5], "k": ["c"] * 4, "y": ["maybe"] * 4}
    links = read_table({"src": [1], "dst": [2]})
    drafted = draft_schema(read_table(left), links, label="y", kinds={"k": "category"})
    both = extend_schema(drafted, read_table(right))
    assert both.classes == ("maybe", "no", "yes")
    assert both.columns["k"].values == ("a", "b", "c")
    assert both.columns["v"].missing
    together = np.array([1, 2, 6, 9, 4, 5.0])
    assert both.columns["v"].mean == pytest.approx(together.mean(), rel=1e-4)
    assert both.columns["v"].scale == pytest.approx(together.std(), rel=1e-4)
    assert Schema.of_text(both.to_text()) == both


def test_graph_files_of_unlike_schemas_make_no_federation(tmp_path: Path) -> None:
    import_tables(NODES, EDGES, label="label").save(tmp_path / "a.npz")
    import_tables({**NODES, "kind": ["x", "z", "x", "z"]}, EDGES, label="label").save(
        tmp_path / "b.npz"
    )
    with pytest.raises(GraphError, match="another schema than"):
        load_graphs([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert common_schema([tmp_path / "a.npz"]) == common_schema([tmp_path / "a.npz"] * 2)


def test_frames_of_pandas_and_polars() -> None:
    by_hand = features()
    for library in ("pandas", "polars"):
        frames = pytest.importorskip(library)
        nodes = {**NODES, "size": [1.0, 3.0, None, 2.0], "label": ["no", "yes", None, "no"]}
        imported = import_tables(frames.DataFrame(nodes), frames.DataFrame(EDGES), label="label")
        assert np.array_equal(to_dense(imported.graph.x), by_hand)
        assert imported.graph.y.tolist() == [0, 1, -1, 0]


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frames = pytest.importorskip("polars")
    for name, columns in (("n", {**NODES, "size": [1.0, 3.0, None, 2.0]}), ("e", EDGES)):
        frames.DataFrame(columns).write_parquet(tmp_path / f"{name}.parquet")
    imported = import_tables(tmp_path / "n.parquet", tmp_path / "e.parquet", label="label")
    assert np.array_equal(to_dense(imported.graph.x), features())


def test_parquet_without_pyarrow_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "n.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"pip install 'autofgl\[import\]'"):
        read_table(tmp_path / "n.parquet")


def test_what_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="a int is no table"):
        read_table(3)
    with pytest.raises(GraphError, match="from 1 to 2 rows"):
        read_table({"a": [1], "b": [1, 2]})
    other = tmp_path / "t.csv"
    other.write_bytes('\ufeffid;v\n\na;1\n\n"b\nc";2\nd;3;4\n'.encode())
    table = read_table(other)
    assert table.columns == {"id": ["a", "b\nc"], "v": ["1", "2"]}
    assert table.lines == [3, 5]
    assert [row.line for row in table.bad] == [7]
