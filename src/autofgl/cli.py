"""The command line. It only turns words into calls; everything else is in :mod:`autofgl.api`."""

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from autofgl import cli_pages
from autofgl.cli_options import Clients, DataRoot, Dataset, Graphs
from autofgl.cli_site import app as site_app
from autofgl.errors import AutoFGLError, UserError

if TYPE_CHECKING:
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
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
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
    data_root: DataRoot = None,
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


app.command(epilog="Example: autofgl report runs/demo")(cli_pages.report)
app.command(epilog="Example: autofgl watch runs/demo")(cli_pages.watch)
app.command(epilog=cli_pages.COMPARE_EXAMPLE)(cli_pages.compare)
app.command(epilog=cli_pages.REPRODUCE_EXAMPLE)(cli_pages.reproduce)


@app.command(epilog="Example: autofgl methods fedavg")
def methods(
    method: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
) -> None:
    """List the methods, or the settings of one."""
    from autofgl.methods.catalog import METHODS, find_method
    from autofgl.terminal import show_table

    if method is None:
        rows = [(name, entry.summary) for name, entry in METHODS.items()]
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


def _fail(message: str, code: int) -> None:
    _errors.print(f"autofgl: {message}", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
