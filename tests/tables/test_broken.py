"""Broken tables: one clear line each, exit code 2, and nothing written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autofgl.cli import main
from autofgl.tables.schema import Schema

NODES = """account,income,kind,opened,fraud
a1,1200.5,private,2024-01-02,no
a2,,business,2024-02-03,yes
a3,900,private,2024-03-04,no
a4,800,business,2024-04-04,
"""
EDGES = """from,to,amount
a1,a2,3.5
a2,a3,1
a3,a4,2
"""
SCHEMA = """
id: account
label: fraud
classes: ['no', 'yes']
source: from
target: to
weight: amount
columns:
  income: {kind: number, mean: 900, scale: 200, missing: true}
  kind: {kind: category, values: [business, private]}
  opened: date
"""


def swapped(old: str, new: str) -> Callable[[Path], None]:
    """Change the table of nodes."""
    assert old in NODES
    return lambda folder: _replace(folder / "n.csv", old, new)


def in_edges(old: str, new: str) -> Callable[[Path], None]:
    assert old in EDGES
    return lambda folder: _replace(folder / "e.csv", old, new)


def in_schema(old: str, new: str) -> Callable[[Path], None]:
    assert old in SCHEMA
    return lambda folder: _replace(folder / "s.yaml", old, new)


def _replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))


def raw(name: str, data: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(data)

    return write


BROKEN = {
    "duplicate id": (swapped("a4,", "a1,"), "n.csv line 5: the id 'a1' is there before, in line 2"),
    "no id": (swapped("a3,", ","), "n.csv line 4: the id is missing"),
    "unknown end": (in_edges("a3,a4", "a3,b9"), "e.csv line 4: 'to' is 'b9', which is no id"),
    "no end": (in_edges("a3,a4", "a3,"), "e.csv line 4: 'to' is empty"),
    "mixed types": (swapped("900", "12k"), "n.csv line 4: 'income' is '12k', which is no number"),
    "infinite": (swapped("900", "1e999"), "n.csv line 4: 'income' is '1e999'"),
    "encoding": (raw("n.csv", NODES.replace("a3", "caf\xe9").encode("latin1")), "byte 0xe9"),
    "wide encoding": (raw("n.csv", NODES.encode("utf-16")), "n.csv is not in UTF-8"),
    "a workbook": (raw("n.csv", b"PK\3\4"), "n.csv is no text: save the table as CSV"),
    "empty": (raw("n.csv", b""), "n.csv is empty"),
    "header only": (raw("n.csv", NODES.splitlines()[0].encode()), "a header and no rows"),
    "no column": (
        lambda folder: (folder / "n.csv").write_text(
            "\n".join(",".join(line.split(",")[i] for i in (0, 1, 3, 4)) for line in
                      NODES.splitlines())),
        "n.csv: the column 'kind' is missing: the columns are account, income, opened, fraud",
    ),
    "no labels": (swapped(",fraud", ",remark"), "the column of labels 'fraud' is missing: add it"),
    "unseen category": (swapped("a1,1200.5,private", "a1,1200.5,state"), "'kind' is 'state', a "
                        "category that the schema lacks"),
    "unseen class": (swapped("04,no", "04,maybe"), "'fraud' is 'maybe', which is no class of the "
                     "schema (no, yes)"),
    "no date": (swapped("2024-03-04", "4 March"), "'opened' is '4 March', which is no date"),
    "missing": (swapped("private,2024-03-04", ",2024-03-04"), "line 4: 'kind' is empty"),
    "long row": (swapped("04,no", "04,no,really"), "line 4: 6 fields, where the header has 5"),
    "two of a name": (swapped("opened", "kind"), "2 columns are called 'kind'"),
    "no name": (swapped("opened", ""), "column 4 has no name"),
    "open quote": (swapped("a3,", '"a3,'), "line 4: this is not CSV: a quote is never closed"),
    "negative weight": (in_edges("3.5", "-3.5"), "'amount' is '-3.5': weights are 0 or more"),
    "no weights": (in_edges("amount", "sum"), "the column of weights 'amount' is missing"),
    "not there": (lambda folder: (folder / "e.csv").unlink(), "e.csv: there is no such file"),
    "Parquet in name": (lambda folder: (folder / "n.csv").rename(folder / "n.parquet"), "n."),
    "kind of schema": (in_schema("kind: number", "kind: numbr"), "did you mean number"),
    "key of schema": (in_schema("label:", "lable:"), "did you mean label"),
    "logical class": (in_schema("'no', 'yes'", "no, yes"), "put it in quotes"),
    "scale of schema": (in_schema("200", "0"), "'scale' must be above 0"),
    "columns of schema": (in_schema("columns:", "ignored:"), "key 'ignored'"),
}  # fmt: skip


def fails(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a mistake is answered with."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    error = capsys.readouterr().err
    assert stopped.value.code == 2, error
    assert error.count("\n") == 1, error
    assert error.startswith("autofgl: "), error
    return error


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("n.csv", NODES), ("e.csv", EDGES), ("s.yaml", SCHEMA)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_table_is_one_line_and_writes_nothing(
    case: str, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_it, message = BROKEN[case]
    break_it(tables)
    nodes = "n.parquet" if case == "Parquet in name" else "n.csv"
    before = {path: path.read_bytes() for path in tables.iterdir()}
    assert message in fails(["import", nodes, "e.csv", "--schema", "s.yaml"], capsys)
    assert {path: path.read_bytes() for path in tables.iterdir()} == before


def test_the_tables_themselves_are_fine(tables: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["import", "n.csv", "e.csv", "--schema", "s.yaml", "--dry-run"])
    assert not stopped.value.code
    assert not (tables / "n.npz").exists()


def test_all_refused_rows_are_counted_and_listed(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _replace(tables / "n.csv", "a1,1200.5", "a1,much")
    _replace(tables / "n.csv", "a3,900", "a3,12k")
    line = fails(["import", "n.csv", "e.csv", "--schema", "s.yaml"], capsys)
    assert "n.csv line 2: 'income' is 'much'" in line
    assert "(2 rows are refused: lines 2, 4)" in line
    with pytest.raises(SystemExit) as stopped:
        main(["import", "n.csv", "e.csv", "--schema", "s.yaml", "--skip-bad-rows"])
    assert not stopped.value.code
    error = capsys.readouterr().err
    for line in ("n.csv line 2: 'income'", "n.csv line 4", "e.csv line 2: 'from' is 'a1'"):
        assert line in error
    listed = (tables / "n.refused.csv").read_text().splitlines()
    assert len(listed) == 1 + 2 + 3, "two accounts, and the edges that lead to them"
    assert listed[1].startswith('"n.csv",2,"')


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "fraude"], "the column of labels 'fraude' is missing"),
        (["--id", "number"], "the column of ids 'number' is missing"),
        (["--as", "income"], "--as takes COLUMN=KIND"),
        (["--as", "income=numbr"], "did you mean number"),
        (["--as", "incme=number"], "'incme' is missing"),
        (["--as", "kind=number"], "'kind' is 'private', which is no number"),
        (["--weight", "sum"], "the column of weights 'sum' is missing"),
        (["--source", "to", "--target", "to"], "both ends of an edge"),
        (["--time", "kind"], "'kind' is 'private', which is no date"),
        (["--time", "opened", "--test-from", "soon"], "--test-from soon"),
        (["--schema", "s.yaml", "--label", "fraud"], "the schema says 'label' already"),
        (["--schema", "s.yaml", "--write-schema", "t.yaml"], "give --schema to import"),
        (["--write-schema", "s.yaml", "--label", "fraud"], "leave it out"),
        (["--schema", "absent.yaml"], "absent.yaml"),
        (["--out", "n.csv"], "graph files are written as .npz"),
    ],
    ids=str,
)
def test_a_mistake_in_the_command_is_one_line(
    words: list[str], message: str, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in tables.iterdir()}
    assert message in fails(["import", "n.csv", "e.csv", *words], capsys)
    assert {path: path.read_bytes() for path in tables.iterdir()} == before


def test_a_column_of_mixed_types_is_no_number_and_no_category(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"c{i},{i},private,2024-01-02,no\n" for i in range(20))
    (tables / "n.csv").write_text(NODES + rows.replace("c7,7,", "c7,seven,"))
    line = fails(["import", "n.csv", "e.csv", "--label", "fraud"], capsys)
    assert "line 13: 'income' is 'seven', which is no number, where 22 of 23 rows have one" in line
    assert "--as 'income=category'" in line


def test_a_schema_survives_its_file(tables: Path) -> None:
    schema = Schema.read(tables / "s.yaml")
    assert Schema.of_text(schema.to_text()) == schema
    assert schema.width == 2 + 2 + 3
