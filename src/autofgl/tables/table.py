"""Tables as columns of text: CSV files, Parquet files, frames of pandas and polars.

Whatever a table came in, its cells are text, stripped, and empty where a value is missing. CSV is
read with the standard library; pandas, polars and pyarrow are imported by whoever uses them.
"""

import csv
import datetime
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from autofgl.errors import GraphError, UserError, one_line

#: What may be given as a table: a path, a frame of pandas or polars, columns by name.
TableLike: TypeAlias = Any

#: Cells that stand for a missing value.
MISSING = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "<NA>"})
#: What frames print for a missing value.
_NOTHING = ("<NA>", "NaT", "nan")
_DELIMITERS = ",;\t|"
#: Lines that an error lists.
_LISTED = 10
_INSTALL = "pip install 'autofgl[import]'"


class BadRow(NamedTuple):
    """A row of a table that is refused, with its place and what is wrong with it."""

    table: str
    line: int
    reason: str

    def to_text(self, unit: str = "line") -> str:
        """One line for a person."""
        return f"{self.table} {unit} {self.line}: {self.reason}"


@dataclass(frozen=True)
class DataTable:
    """Columns of text, and where each row stands.

    Attributes:
        name: What messages call the table.
        columns: Cells by the column's name, all of one length.
        lines: Line of each row in its file; number of the row in a frame.
        unit: What ``lines`` count: ``line`` or ``row``.
        bad: Rows that could not be read, and are not among the others.
    """

    name: str
    columns: Mapping[str, list[str]]
    lines: Sequence[int]
    unit: str = "line"
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str, what: str) -> list[str]:
        """The cells of a column that must be there."""
        if name not in self.columns:
            listed = ", ".join(self.columns)
            raise GraphError(
                one_line(f"{self.name}: {what} '{name}' is missing: the columns are {listed}", 1000)
            )
        return self.columns[name]

    def at(self, row: int, reason: str) -> BadRow:
        """A refusal of one row."""
        return BadRow(self.name, self.lines[row], one_line(reason))

    def refuse(self, bad: Sequence[BadRow]) -> None:
        """Raise if any row is refused, in one line that names the first and where the others are.

        Raises:
            GraphError: There is one.
        """
        if not bad:
            return
        ordered = sorted(bad, key=lambda row: row.line)
        message = ordered[0].to_text(self.unit)
        if len(ordered) > 1:
            shown = ", ".join(str(row.line) for row in ordered[:_LISTED])
            more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
            message += f" ({len(ordered)} rows are refused: {self.unit}s {shown}{more})"
        raise GraphError(f"{message}: correct it, or leave such rows out with --skip-bad-rows")


def read_table(given: TableLike, name: str = "table") -> DataTable:
    """A table from a CSV or Parquet file, a frame of pandas or polars, or columns by name.

    Raises:
        GraphError: It is none, or is empty.
    """
    if isinstance(given, DataTable):
        return given
    if isinstance(given, str | Path):
        path = Path(given)
        if not path.is_file():
            raise GraphError(f"{path}: there is no such file")
        table = _read_parquet(path) if path.suffix == ".parquet" else _read_csv(path)
    else:
        table = _from_frame(given, name)
    if not table.columns:
        raise GraphError(f"{table.name} has no columns")
    return table


def is_missing(cell: str) -> bool:
    """Whether a cell stands for no value."""
    return cell in MISSING


def _read_csv(path: Path) -> DataTable:
    name, text = str(path), _text(path)
    if not text.strip():
        raise GraphError(f"{name} is empty: its first line has to name the columns")
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] = []
    cells: list[list[str]] = []
    lines: list[int] = []
    bad = []
    begin = 1
    try:
        for row in rows:
            line, begin = begin, rows.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if not header:
                header = _header(name, row)
            elif len(row) != len(header):
                reason = f"{len(row)} fields, where the header has {len(header)}"
                bad.append(BadRow(name, line, reason))
            else:
                lines.append(line)
                cells.append(row)
    except csv.Error as error:
        problem = "a quote is never closed" if "end of data" in str(error) else str(error)
        raise GraphError(f"{name} line {begin}: this is not CSV: {one_line(problem)}") from error
    columns = {key: [row[i].strip() for row in cells] for i, key in enumerate(header)}
    return DataTable(name, columns, lines, "line", tuple(bad))


def _text(path: Path) -> str:
    """The text of a file in UTF-8, with or without its mark."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise GraphError(f"cannot read {path}: {error.strerror}") from error
    if data[:2] == b"PK" or data[:4] in (b"\xd0\xcf\x11\xe0", b"PAR1"):
        raise GraphError(f"{path} is no text: save the table as CSV, or as .parquet")
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data:
        raise GraphError(f"{path} is not in UTF-8: save it again as CSV in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        way = "save it as UTF-8, as with: iconv -f latin1 -t utf-8"
        raise GraphError(
            f"{path} line {line}: byte 0x{data[error.start]:02x} is not UTF-8: {way}"
        ) from error


def _header(name: str, row: Iterable[str]) -> list[str]:
    header = [cell.strip() for cell in row]
    for place, key in enumerate(header, 1):
        if not key:
            way = "name it in the first line (pandas: to_csv(…, index=False))"
            raise GraphError(f"{name}: column {place} has no name: {way}")
    key, count = Counter(header).most_common(1)[0]
    if count > 1:
        raise GraphError(one_line(f"{name}: {count} columns are called '{key}': rename them apart"))
    return header


def _read_parquet(path: Path) -> DataTable:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise UserError(f"{path}: Parquet needs pyarrow: {_INSTALL}") from error
    try:
        content = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise GraphError(f"{path} is no Parquet file: {one_line(str(error))}") from error
    names = _header(str(path), content.column_names)
    columns = {key: _texts(content.column(i).to_pylist()) for i, key in enumerate(names)}
    return DataTable(str(path), columns, range(1, content.num_rows + 1), "row")


def _from_frame(given: Any, name: str) -> DataTable:
    """Columns of a frame, by what pandas, polars and mappings have in common."""
    if isinstance(given, Mapping):
        keys = list(given)
    elif hasattr(given, "columns") and hasattr(given, "__getitem__"):
        keys = list(given.columns)
    else:
        kinds = "the path of a CSV or Parquet file, a pandas or polars frame, or columns by name"
        raise GraphError(f"{name}: a {type(given).__name__} is no table: give {kinds}")
    names = _header(name, map(str, keys))
    columns = {}
    for key, text in zip(keys, names, strict=True):
        column = given[key]
        listed = next((way for way in ("to_list", "tolist") if hasattr(column, way)), "")
        columns[text] = _texts(getattr(column, listed)() if listed else column)
    lengths = {len(cells) for cells in columns.values()}
    if len(lengths) > 1:
        raise GraphError(f"{name}: columns have from {min(lengths)} to {max(lengths)} rows")
    return DataTable(name, columns, range(1, max(lengths, default=0) + 1), "row")


def _texts(values: Iterable[Any]) -> list[str]:
    return [_cell(value) for value in values]


def _cell(value: Any) -> str:
    """A value of a frame as CSV would have it."""
    text = str(value).strip()
    if value is None or text in _NOTHING:
        return ""
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else text
