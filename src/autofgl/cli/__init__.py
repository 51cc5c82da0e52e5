"""The command line. It only turns words into calls; everything else is in :mod:`autofgl.api`.

No command imports torch before everything that was typed is checked.
"""

import sys

import typer

from autofgl.cli import audit, pages, run, show, site
from autofgl.errors import AutoFGLError, one_line

app = typer.Typer(
    name="autofgl",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Search and train graph neural networks on graphs that may not be pooled.",
    epilog="Example: autofgl run fedavg --dataset cora",
)
app.command("run", epilog=run.RUN_EXAMPLE)(run.run_command)
app.command("predict", epilog=run.PREDICT_EXAMPLE)(run.predict_command)
app.command("diagnose", epilog="Example: autofgl diagnose runs/search")(run.diagnose_command)
app.command("audit", epilog=audit.AUDIT_EXAMPLE)(audit.audit_command)
app.command("report", epilog="Example: autofgl report runs/demo")(pages.report)
app.command("watch", epilog="Example: autofgl watch runs/demo")(pages.watch)
app.command("compare", epilog=pages.COMPARE_EXAMPLE)(pages.compare)
app.command("reproduce", epilog=pages.REPRODUCE_EXAMPLE)(pages.reproduce)
app.command("methods", epilog="Example: autofgl methods fedavg")(show.list_methods)
app.command("datasets", epilog="Example: autofgl datasets")(show.list_datasets)
app.add_typer(site.app)

#: Options that take several values after one name.
_LISTS = ("--set", "--dp", "--graphs", "--datasets", "--rows")


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit code 0 if it worked, 2 for a user's mistake, 130 for Ctrl-C, else 1."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
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


def _fail(message: str, code: int) -> None:
    lines = (one_line(line, 2000) for line in message.splitlines())  # a client may have written it
    print("autofgl: " + "\n".join(lines), file=sys.stderr)
    sys.exit(code)
