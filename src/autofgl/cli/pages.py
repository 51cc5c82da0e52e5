"""Commands whose end is something to look at: reports, comparisons, tables and figures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from autofgl.cli.run import Clients, DataRoot, Dataset, Graphs, Secure
from autofgl.errors import UserError, unknown_name

if TYPE_CHECKING:
    from autofgl.experiments.plan import Options

COMPARE_EXAMPLE = "Example: autofgl compare fedavg fl-agcns fedavg:model=gat --seeds 3 --budget 3m"
REPRODUCE_EXAMPLE = (
    "Example: autofgl reproduce fl-agcns-table3 --datasets cora --rows gcn gat --seeds 2"
)

_console = Console()


def report(
    folder: Annotated[Path, typer.Argument(help="Run folder, finished or not.")],
) -> None:
    """Write report.html of a run that has none, or that has gone on since."""
    from autofgl.runs.folder import RunFolder

    RunFolder.open(folder)  # a wrong folder is refused before anything heavy is imported
    from autofgl.report.report import write_report

    try:
        written = write_report(folder)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from error
    _console.print(f"report: {written}", highlight=False, soft_wrap=True)


def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, going on or finished.")],
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 for any free one.")] = 8765,
) -> None:
    """Serve a run's report, which renews itself while the run goes on; Ctrl-C ends it."""
    from autofgl.runs.folder import RunFolder

    RunFolder.open(folder)
    from autofgl.report.report import LiveServer

    with LiveServer(folder, host, port) as server:
        _console.print(f"watch {folder} at {server.address}", highlight=False, soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _console.print("no longer watched; the run goes on", highlight=False)


def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            help="Methods, each with settings of its own if any: fedavg:model=gat,lr=0.02"
        ),
    ],
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
    partition: Annotated[str, typer.Option(help="How the graph is cut.")] = "metis",
    secure: Secure = "none",
    seeds: Annotated[int, typer.Option(help="Seeds of each method.")] = 5,
    budget: Annotated[
        str, typer.Option(help="Time for each run, the same for all, e.g. 90s, '10m cpu'.")
    ] = "10m",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Settings, key=value …, for every method that reads them."),
    ] = None,
    data_root: DataRoot = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the comparison; the same one goes on.")
    ] = Path("runs/comparison"),
) -> None:
    """Run methods on the same clients with the same seeds and budget, and say who is ahead."""
    from autofgl.config import parse_settings
    from autofgl.experiments.plan import Options, Setting, make_comparison, plan

    files = tuple(str(Path(path).absolute()) for path in graphs or ())
    data = dataset or (None if files else "cora")
    count = clients or (None if len(files) > 1 else 3)
    setting = Setting("", "", data, count, partition, graphs=files)
    comparison = make_comparison(methods, setting, parse_settings(set_ or []))
    options = Options(out=out, seeds=seeds, budget=budget, secure=secure, data_root=data_root)
    plan(comparison, options)  # mistakes are refused before anything heavy is imported
    from autofgl.experiments.compare import ComparisonPages
    from autofgl.experiments.runner import run_experiment

    run_experiment(ComparisonPages(comparison, options), _console)


def reproduce(
    name: Annotated[
        str,
        typer.Argument(help="Table or figure, e.g. fl-agcns-table3 or fedgraph-fig7; list: all."),
    ] = "list",
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
    episodes: Annotated[
        int | None, typer.Option(help="Figures: episodes to learn a policy in. [default: 16]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One dataset, one seed, little time for each run.")
    ] = False,
    secure: Secure = "none",
    data_root: DataRoot = None,
) -> None:
    """Run a paper's table, paper beside ours, or a figure. Stopped, the same command goes on."""
    from autofgl.experiments.papers import FIGURES, QUICK_BUDGET, TABLES, VIEWS
    from autofgl.experiments.plan import Options

    if name == "list":
        _list_reproducible()
        return
    view = VIEWS.get(name)
    source = view.table if view else name
    if source not in TABLES and source not in FIGURES:
        raise unknown_name("table or figure", name, [*TABLES, *FIGURES, *VIEWS])
    if source in FIGURES and budget is not None:
        raise UserError("--budget is for tables: the runs of a figure end after --rounds")
    if source in TABLES and (rounds is not None or episodes is not None):
        raise UserError(
            "--rounds and --episodes are for figures: the searches of a table end after --budget"
        )
    options = Options(
        out=out or Path("runs") / (f"{source}-quick" if quick else source),
        datasets=tuple(datasets or ()),
        rows=tuple(rows or (view.rows if view else ())),
        seeds=seeds,
        budget=budget or (QUICK_BUDGET if quick else "10m"),
        secure=secure,
        data_root=data_root,
        rounds=rounds,
        episodes=episodes,
    )
    _run_reproduction(source, options, quick)
    if view:
        page = f"{options.out / 'table.html'}#{view.part}"
        _console.print(f"{view.title}: {page}", highlight=False, soft_wrap=True)


def _run_reproduction(name: str, options: "Options", quick: bool) -> None:
    """Run a table or a figure, the whole or its quick version."""
    from autofgl.experiments.papers import FIGURES, TABLES, quick_figure, quick_table
    from autofgl.experiments.plan import Figure, Table, plan

    experiment: Figure | Table = FIGURES[name] if name in FIGURES else TABLES[name]
    if quick:
        experiment = quick_figure(FIGURES[name]) if name in FIGURES else quick_table(TABLES[name])
    plan(experiment, options)  # mistakes are refused before anything heavy is imported
    from autofgl.experiments import figures, runner, tables

    pages = (
        figures.FigurePages(experiment, options)
        if isinstance(experiment, Figure)
        else tables.TablePages(experiment, options)
    )
    runner.run_experiment(pages, _console)


def _list_reproducible() -> None:
    from autofgl.cli.show import show_table
    from autofgl.experiments.papers import FIGURES, STATIC, TABLES, VIEWS

    listed = []
    for one in (*TABLES.values(), *FIGURES.values()):
        datasets = dict.fromkeys(setting.group or setting.name for setting in one.settings)
        names = " ".join(variant.name for variant in one.variants)
        listed.append((one.name, " ".join(datasets), names, one.source))
    show_table(_console, ("name", "datasets", "rows", "source"), listed)
    views = [(view.name, view.title, view.table, view.source) for view in VIEWS.values()]
    _console.print()
    show_table(_console, ("name", "shows", "runs of", "source"), views)
    _console.print()
    show_table(_console, ("nothing to run", "see"), STATIC)
