"""Runs what a table is missing.

Every seed of a cell is an ordinary run folder, ``OUT/<column>/<row>/seed-<n>``. ``table.md`` and
``table.json`` are made anew from the folders after every run.
"""

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.reproduce.batch import check_folder, make_all
from autofgl.reproduce.cells import Cell, check_present, plan
from autofgl.reproduce.options import Options
from autofgl.reproduce.render import as_json, markdown, ours, seeds
from autofgl.reproduce.summary import summarise, summarise_cell
from autofgl.reproduce.table import Table
from autofgl.runs.result import Result


def reproduce(table: Table, options: Options, console: Console) -> None:
    """Run all cells that are asked for and not finished, and write the table.

    Raises:
        UserError: An option is wrong, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    cells = plan(table, options)
    check_folder(options.out, "table", table.name)
    check_present(table, options)
    make_all(table.name, cells, _TablePages(table, options), options, console)


class _TablePages:
    """``table.md`` and ``table.json``."""

    def __init__(self, table: Table, options: Options) -> None:
        self._table = table
        self._options = options

    def write(self) -> None:
        """Make both anew."""
        cells = summarise(self._table, self._options)
        text = as_json(self._table, self._options, cells)
        write_text(self._options.out / "table.json", text)
        write_text(self._options.out / "table.md", markdown(self._table, self._options, cells))

    def told(self, run: Cell, result: Result) -> str:
        """Its accuracy, and how the cell stands."""
        summary = summarise_cell(self._table, run.column, run.row, self._options)
        paper = f", paper {summary.paper.accuracy:.1f}" if summary.paper else ""
        return (
            f"test accuracy {100 * result.test_accuracy:.1f} in {result.figures['wall_s']:.1f} s; "
            f"so far {ours(summary)}, seeds {seeds(summary)}{paper}"
        )

    def ending(self) -> str:
        """The table."""
        page = self._options.out / "table.md"
        return f"\n{page.read_text()}\nwritten to {page}"
