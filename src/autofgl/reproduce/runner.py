"""Runs what a table is missing.

Every seed of a cell is an ordinary run folder, ``OUT/<column>/<row>/seed-<n>``. ``table.md``,
``table.html``, ``table.csv`` and ``table.json`` are made anew from the folders after every run.
"""

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.reproduce.batch import check_folder, make_all
from autofgl.reproduce.cells import Cell, check_present, plan
from autofgl.reproduce.options import Options
from autofgl.reproduce.render import as_json, markdown, ours, seeds
from autofgl.reproduce.summary import summarise, summarise_cell
from autofgl.reproduce.table import Table
from autofgl.reproduce.table_files import as_csv, as_html
from autofgl.runs.folder import Result


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
    """``table.md``, ``table.html``, ``table.csv`` and ``table.json``."""

    def __init__(self, table: Table, options: Options) -> None:
        self._table = table
        self._options = options

    def write(self) -> None:
        """Make all anew."""
        table, options, out = self._table, self._options, self._options.out
        cells = summarise(table, options)
        write_text(out / "table.json", as_json(table, options, cells))
        write_text(out / "table.md", markdown(table, options, cells))
        write_text(out / "table.csv", as_csv(cells))
        write_text(out / "table.html", as_html(table, options, cells))

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
        out = self._options.out
        text = (out / "table.md").read_text()
        return f"\n{text}\nwritten to {out / 'table.html'}, table.md and table.csv beside it"
