"""The command line. It only turns words into calls; everything else is in :mod:`autofgl.api`.

No command imports torch before everything that was typed is checked.
"""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from autofgl.cli import audit, export, leaderboard, pages, predict, run, show, site, tables
from autofgl.errors import AutoFGLError, GraphNotice, one_line

app = typer.Typer(
    name="autofgl",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Search and train graph neural networks on graphs that may not be pooled.",
    epilog="Example: autofgl auto --graphs bank.npz hospital.npz city.npz --budget 10m",
)
app.command("auto", epilog=run.AUTO_EXAMPLE)(run.auto_command)
app.command("run", epilog=run.RUN_EXAMPLE)(run.run_command)
app.command("import", epilog=tables.IMPORT_EXAMPLE)(tables.import_command)
app.command("match", epilog=tables.MATCH_EXAMPLE)(tables.match_files_command)
app.command("predict", epilog=predict.PREDICT_EXAMPLE)(predict.predict_command)
app.command("export", epilog=export.EXPORT_EXAMPLE)(export.export_command)
app.command("diagnose", epilog="Example: autofgl diagnose runs/search")(run.diagnose_command)
app.command("audit", epilog=audit.AUDIT_EXAMPLE)(audit.audit_command)
app.command("report", epilog="Example: autofgl report runs/demo")(pages.report)
app.command("watch", epilog="Example: autofgl watch runs/demo")(pages.watch)
app.command("compare", epilog=pages.COMPARE_EXAMPLE)(pages.compare)
app.command("leaderboard", epilog=leaderboard.EXAMPLE)(leaderboard.leaderboard)
app.command("reproduce", epilog=pages.REPRODUCE_EXAMPLE)(pages.reproduce)
app.command("methods", epilog="Example: autofgl methods fedavg")(show.list_methods)
app.command("datasets", epilog="Example: autofgl datasets")(show.list_datasets)
app.add_typer(site.app)

#: Options that take several values after one name.
_LISTS = (
    "--set", "--dp", "--graphs", "--datasets", "--rows", "--as", "--partitions", "--tune",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit code 0 if it worked, 2 for a user's mistake, 130 for Ctrl-C, else 1."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        with _notices():
            code = app(expand_lists(words), standalone_mode=False, prog_name="autofgl")
    except typer.TyperException as error:
        _fail(error.format_message(), 2)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted; resume from the last checkpoint with autofgl run --resume DIR", 130)
    except AutoFGLError as error:
        _fail(str(error), error.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def expand_lists(words: list[str]) -> list[str]:
    """Turn ``--set a=1 b=2`` into ``--set a=1 --set b=2``, likewise for the other lists."""
    expanded: list[str] = []
    option = ""
    for word in words:
        if word.startswith("-"):
            option = word if word in _LISTS else ""
        elif option and expanded[-1] != option:
            expanded.append(option)
        expanded.append(word)
    return expanded


@contextmanager
def _notices() -> Iterator[None]:
    """Show what was done with the edges of graphs as a line of ours, not as Python's warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", GraphNotice)
        other = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any) -> None:
            if issubclass(category, GraphNotice):
                print(f"autofgl: {one_line(str(message), 2000)}", file=sys.stderr)
            else:
                other(message, category, *more)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _fail(message: str, code: int) -> None:
    lines = (one_line(line, 2000) for line in message.splitlines())  # a client may have written it
    print("autofgl: " + "\n".join(lines), file=sys.stderr)
    sys.exit(code)
