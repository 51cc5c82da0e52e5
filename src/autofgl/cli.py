"""The command line. It only turns words into calls; everything else is in :mod:`autofgl.api`."""

import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autofgl.cli_site import app as site_app
from autofgl.errors import AutoFGLError, UserError, unknown_name

if TYPE_CHECKING:
    from autofgl.reproduce.figure import Line
    from autofgl.reproduce.table import Column, Row
    from autofgl.runs.result import Result

app = typer.Typer(
    name="autofgl",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Find and train graph neural networks on graphs that may not be pooled.",
)

app.add_typer(site_app)

#: Options that take several values after one name.
_LISTS = ("--set", "--graphs", "--datasets", "--rows")

_console = Console()
_errors = Console(stderr=True)


@app.command(
    epilog="Example: autofgl run fedavg --dataset cora --clients 3 --set model=gcn lr=0.02"
)
def run(
    method: Annotated[
        str | None, typer.Argument(help="Method (see autofgl methods); not needed with --resume.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset (see autofgl datasets). [default: cora]")
    ] = None,
    graphs: Annotated[
        list[str] | None,
        typer.Option(help="Graph files, one for each client; one file with --clients is cut."),
    ] = None,
    clients: Annotated[int | None, typer.Option(help="Number of clients. [default: 3]")] = None,
    partition: Annotated[
        str | None, typer.Option(help="How the graph is cut, e.g. metis. [default: metis]")
    ] = None,
    secure: Annotated[
        str | None,
        typer.Option(help="Protection of sums: none, ckks or shares. [default: the method's own]"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Root of all chance. [default: 0]")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Begin no round after this time, e.g. 90s, 1h30m, '10m cpu'.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Settings, key=value …; see autofgl methods METHOD."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file with these options; the command line wins.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="What carries the messages: inprocess, or nvflare for a process per client with "
            "mutual TLS between them. [default: inprocess]"
        ),
    ] = None,
    data_root: Annotated[
        str | None, typer.Option(help="Folder with raw datasets. [default: $AUTOFGL_DATA]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder. [default: a new one below runs/]")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
) -> None:
    """Run a method and leave a run folder with model, history and result."""
    given = {
        "method": method,
        "dataset": dataset,
        "graphs": graphs or None,
        "data_root": data_root,
        "clients": clients,
        "partition": partition,
        "secure": secure,
        "seed": seed,
        "budget": budget,
        "engine": engine,
        "settings": set_ or None,
    }
    given = {key: value for key, value in given.items() if value is not None}
    if resume is not None:
        result = _resume(resume, given, config, out)
    else:
        result = _start(given, config, out)
    from autofgl.terminal import show_result

    show_result(_console, result)


@app.command(epilog="Example: autofgl predict runs/demo --graph mine.npz --out mine.csv")
def predict(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    graph: Annotated[Path, typer.Option(help="Graph file to classify.")],
    client: Annotated[
        str | None, typer.Option(help="Whose model, where every client has its own.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help=".csv or .npz to write. [default: GRAPH.predictions.csv]")
    ] = None,
) -> None:
    """Write the predicted class of every node of a graph file."""
    from autofgl.graphs.files import load_graph
    from autofgl.runs.export import read_description
    from autofgl.runs.predict import predict as classify
    from autofgl.runs.predict import write_predictions

    target = out or Path(f"{graph.stem}.predictions.csv")
    read_description(folder)
    predictions = classify(folder, load_graph(graph), client)
    write_predictions(target, predictions)
    _console.print(f"{len(predictions.label)} predictions written to {target}", soft_wrap=True)
    if predictions.accuracy is not None:
        _console.print(
            f"accuracy {predictions.accuracy:.4f} over {predictions.labelled} labelled nodes"
        )


@app.command(epilog="Example: autofgl report runs/demo")
def report(
    folder: Annotated[Path, typer.Argument(help="Run folder, finished or not.")],
) -> None:
    """Write report.html of a run that has none, or that has gone on since."""
    from autofgl.report.report import write_report

    try:
        written = write_report(folder)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    _console.print(f"report: {written}", highlight=False, soft_wrap=True)


@app.command(epilog="Example: autofgl diagnose runs/search --networks 12")
def diagnose(
    folder: Annotated[Path, typer.Argument(help="Folder of an fl-agcns run.")],
    networks: Annotated[int, typer.Option(help="Networks that are trained on their own.")] = 20,
    rounds: Annotated[int, typer.Option(help="Rounds of each one's training.")] = 50,
) -> None:
    """Tell how well a search's SuperNet ranks networks: shared weights against own training."""
    from autofgl import api
    from autofgl.terminal import show_quality, show_ranked

    quality = api.diagnose(
        folder, networks=networks, rounds=rounds, report=partial(show_ranked, _console)
    )
    show_quality(_console, quality)


@app.command(
    epilog="Example: autofgl reproduce fl-agcns-table3 --datasets cora --rows gcn gat --seeds 2"
)
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Table or figure, e.g. fl-agcns-table3 or fedgraph-fig7; without one, all are "
            "listed with their rows."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the table or figure. [default: runs/NAME]")
    ] = None,
    datasets: Annotated[
        list[str] | None, typer.Option(help="Datasets to run. [default: all]")
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="Rows of a table, or lines of a figure, to run. [default: all]"),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of each row. [default: each row's own number]")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Tables: time for each search, e.g. 90s, '10m cpu'. [default: 10m]"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Figures: rounds of each training. [default: 100]")
    ] = None,
    secure: Annotated[str, typer.Option(help="Protection of sums: none, ckks or shares.")] = "none",
    data_root: Annotated[
        str | None, typer.Option(help="Folder with raw datasets. [default: $AUTOFGL_DATA]")
    ] = None,
) -> None:
    """Run a paper's table, paper beside ours, or a figure. Stopped, the same command goes on."""
    from autofgl.reproduce.figures import FIGURES
    from autofgl.reproduce.tables import TABLES

    if name is None:
        _list_reproducible()
        return
    if name not in TABLES and name not in FIGURES:
        raise unknown_name("table or figure", name, [*TABLES, *FIGURES])
    if name in FIGURES and budget is not None:
        raise UserError("--budget is for tables: the runs of a figure end after --rounds")
    if name in TABLES and rounds is not None:
        raise UserError("--rounds is for figures: the searches of a table end after --budget")

    from autofgl.reproduce.figure_runner import reproduce as run_figure
    from autofgl.reproduce.options import Options
    from autofgl.reproduce.runner import reproduce as run_table

    options = Options(
        out=out or Path("runs") / name,
        columns=tuple(datasets or ()),
        rows=tuple(rows or ()),
        seeds=seeds,
        budget=budget or "10m",
        secure=secure,
        data_root=data_root,
        rounds=rounds,
    )
    if name in FIGURES:
        run_figure(FIGURES[name], options, _console)
    else:
        run_table(TABLES[name], options, _console)


@app.command(epilog="Example: autofgl methods fedavg")
def methods(
    method: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
) -> None:
    """List the methods, or the settings of one."""
    from autofgl.methods.catalog import METHODS, find_method
    from autofgl.terminal import show_table

    if method is None:
        rows = [(name, found.summary) for name, found in METHODS.items()]
        show_table(_console, ("method", "what it does"), rows)
        return
    fields = find_method(method).Settings.model_fields
    show_table(
        _console,
        ("setting", "default", "meaning"),
        [(key, str(field.default), field.description or "") for key, field in fields.items()],
    )


@app.command()
def datasets() -> None:
    """List the datasets."""
    from autofgl.graphs.datasets import DATASETS
    from autofgl.terminal import show_table

    rows = [(name, entry.size, entry.description) for name, entry in DATASETS.items()]
    show_table(_console, ("dataset", "size", "what it is"), rows)


def main(arguments: list[str] | None = None) -> None:
    """Entry point. Exit code 0 if it worked, 2 for a user's mistake, 130 for Ctrl-C, else 1."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(expand_lists(words), standalone_mode=False, prog_name="autofgl")
    except typer.TyperException as error:
        _fail(error.format_message(), 2)
    except UserError as error:
        _fail(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted; go on from the last checkpoint with autofgl run --resume DIR", 130)
    except AutoFGLError as error:
        _fail(str(error), 130 if type(error).__name__ == "Interrupted" else 1)
    sys.exit(code if isinstance(code, int) else 0)


def expand_lists(words: list[str]) -> list[str]:
    """Turn ``--set a=1 b=2`` into ``--set a=1 --set b=2``, likewise for the other lists."""
    expanded: list[str] = []
    option = ""
    taken = 0
    for word in words:
        if word.startswith("-"):
            option, taken = (word, 0) if word in _LISTS else ("", 0)
        elif option:
            if taken:
                expanded.append(option)
            taken += 1
        expanded.append(word)
    return expanded


def _start(given: dict[str, Any], file: Path | None, out: Path | None) -> "Result":
    from autofgl import api
    from autofgl.config import check_config, parse_settings, read_config_file, sort_settings
    from autofgl.methods.catalog import METHODS, find_method
    from autofgl.terminal import show_clients

    values = read_config_file(file) if file else {}
    settings = {**(values.get("settings") or {}), **parse_settings(given.pop("settings", []))}
    values = {**values, **given, "settings": settings}
    if "method" not in values:
        raise UserError(f"name a method: autofgl run {'|'.join(METHODS)}")
    if not values.get("dataset") and not values.get("graphs"):
        values["dataset"] = "cora"
    values["graphs"] = [str(Path(path).absolute()) for path in values.get("graphs") or ()]
    config = check_config(values)
    layers = sort_settings(config, find_method(config.method).Settings)
    folder = out or api.default_folder(config)
    begin = time.perf_counter()
    clients = api.load_clients(config, layers)
    show_clients(_console, clients, time.perf_counter() - begin)
    return api.start(config, clients, folder, _console)


def _resume(folder: Path, given: dict[str, Any], file: Path | None, out: Path | None) -> "Result":
    from autofgl import api
    from autofgl.runs.folder import RunFolder

    budget = given.pop("budget", None)
    values = RunFolder.open(folder).read_config()
    if file or out or any(values.get(key) != value for key, value in given.items()):
        raise UserError(
            "a resumed run keeps its configuration: give --resume DIR and --budget only"
        )
    return api.resume(folder, budget=budget, console=_console)


def _list_reproducible() -> None:
    from autofgl.reproduce.figures import FIGURES
    from autofgl.reproduce.tables import TABLES
    from autofgl.terminal import show_table

    listed = [
        (table.name, _names(table.columns), _names(table.rows), table.source)
        for table in TABLES.values()
    ]
    for figure in FIGURES.values():
        groups = dict.fromkeys(panel.group for panel in figure.panels)
        listed.append((figure.name, " ".join(groups), _names(figure.lines), figure.source))
    show_table(_console, ("name", "datasets", "rows", "source"), listed)


def _names(entries: "Sequence[Row] | Sequence[Column] | Sequence[Line]") -> str:
    return " ".join(entry.name for entry in entries)


def _fail(message: str, code: int) -> None:
    _errors.print(f"autofgl: {message}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
