"""Runs what a table is missing. All it knows is in the folders, so it may be stopped at any time.

Every seed of a cell is an ordinary run folder, ``OUT/<column>/<row>/seed-<n>``. A finished one is
left alone, one that was stopped goes on from its checkpoint. ``table.md`` and ``table.json`` are
made anew from the folders after every run.
"""

import json
from pathlib import Path

from rich.console import Console

from autofgl import api
from autofgl.atomic import write_text
from autofgl.config import sort_settings
from autofgl.errors import AutoFGLError, UserError
from autofgl.methods.catalog import find_method
from autofgl.reproduce.cells import Cell, Options, check_present, plan
from autofgl.reproduce.render import as_json, markdown, ours, seeds
from autofgl.reproduce.summary import summarise, summarise_cell
from autofgl.reproduce.table import Table
from autofgl.runs.folder import RunFolder
from autofgl.runs.loop import Interrupted
from autofgl.runs.result import Result


def reproduce(table: Table, options: Options, console: Console) -> None:
    """Run all cells that are asked for and not finished, and write the table.

    Raises:
        UserError: An option is wrong, or the folder holds something else.
        Interrupted: Ctrl-C or SIGTERM; the same call goes on.
        AutoFGLError: Some runs failed; all others were made nevertheless.
    """
    cells = plan(table, options)
    _check_folder(table, options.out)
    check_present(table, options)
    runner = _Runner(table, options, console)
    runner.write()
    finished = [RunFolder(cell.folder(options.out)).finished for cell in cells]
    runner.say(f"{table.name}: {len(cells)} runs, {sum(finished)} of them finished before")
    failures = 0
    try:
        for number, (cell, done) in enumerate(zip(cells, finished, strict=True), 1):
            if not done:
                runner.say(f"[{number}/{len(cells)}] {cell}")
                failures += not runner.attempt(cell)
    except (Interrupted, KeyboardInterrupt) as stopped:
        raise Interrupted("stopped; the same command goes on where it was") from stopped
    runner.say(f"\n{runner.write()}\nwritten to {options.out / 'table.md'}")
    if failures:
        raise AutoFGLError(
            f"{failures} of {len(cells)} runs failed; the same command tries them again"
        )


class _Runner:
    """Makes the runs of one table."""

    def __init__(self, table: Table, options: Options, console: Console) -> None:
        self._table = table
        self._options = options
        self._console = console

    def attempt(self, cell: Cell) -> bool:
        """Run a cell, renew the table and tell of it; whether it went well."""
        failure = cell.failure(self._options.out)
        try:
            result = self._run(cell)
        except Interrupted:
            raise
        except AutoFGLError as error:
            write_text(failure, f"{error}\n")
            self.write()
            self.say(f"  failed: {error}")
            return False
        failure.unlink(missing_ok=True)
        self.write()
        self.say(f"  {self._told(cell, result)}")
        return True

    def write(self) -> str:
        """Make the table's files anew; the Markdown.

        Raises:
            UserError: The folder cannot be written to.
        """
        cells = summarise(self._table, self._options)
        text = markdown(self._table, self._options, cells)
        out = self._options.out
        try:
            write_text(out / "table.json", as_json(self._table, self._options, cells))
            write_text(out / "table.md", text)
        except OSError as error:
            raise UserError(f"cannot write to {out}: {error.strerror}") from error
        return text

    def say(self, line: str) -> None:
        """Show a line as it is."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _run(self, cell: Cell) -> Result:
        """Start the run or go on with it. Its own progress is shown on a terminal only."""
        folder = RunFolder(cell.folder(self._options.out))
        shown = self._console if self._console.is_terminal else None
        if folder.config.exists():
            return api.resume(folder.path, console=shown)
        for stray in folder.path.glob(".*.tmp"):
            stray.unlink()  # killed while the folder was made
        config = cell.config(self._options)
        layers = sort_settings(config, find_method(config.method).Settings)
        return api.start(config, api.load_clients(config, layers), folder.path, shown)

    def _told(self, cell: Cell, result: Result) -> str:
        summary = summarise_cell(self._table, cell.column, cell.row, self._options)
        paper = f", paper {summary.paper.accuracy:.1f}" if summary.paper else ""
        return (
            f"test accuracy {100 * result.test_accuracy:.1f} in {result.figures['wall_s']:.1f} s; "
            f"so far {ours(summary)}, seeds {seeds(summary)}{paper}"
        )


def _check_folder(table: Table, out: Path) -> None:
    """Refuse a folder of something else: ``table.json`` is the first file of a table."""
    if not out.exists() or _table_in(out) == table.name:
        return
    if not out.is_dir() or any(not path.name.startswith(".") for path in out.iterdir()):
        raise UserError(f"{out} is not a folder of {table.name}: choose another --out")


def _table_in(out: Path) -> str | None:
    """Name of the table that a folder holds."""
    try:
        found = json.loads((out / "table.json").read_text())
    except (OSError, ValueError):
        return None
    return found.get("table") if isinstance(found, dict) else None
