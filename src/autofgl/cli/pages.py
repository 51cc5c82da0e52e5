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
    """Write report.html for a run, or bring it up to date."""
    from autofgl.runs.folder import RunFolder

    RunFolder.open(folder)  # a wrong folder is refused before anything heavy is imported
    from autofgl.report.report import write_report

    written = write_report(folder)
    _console.print(f"report: {written}", highlight=False, soft_wrap=True)


def watch(
    folder: Annotated[Path, typer.Argument(help="Run folder, finished or not.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 8765,
) -> None:
    """Serve a run's report as a live page until Ctrl-C."""
    from autofgl.runs.folder import RunFolder

    RunFolder.open(folder)
    from autofgl.report.report import LiveServer

    with LiveServer(folder, host, port) as server:
        _console.print(f"watch {folder} at {server.address}", highlight=False, soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            _console.print("stopped watching; the run continues", highlight=False)


def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            help="Methods, each with its own settings if needed: fedavg:model=gat,lr=0.02"
        ),
    ],
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
    partition: Annotated[str, typer.Option(help="How to cut the graph into clients.")] = "metis",
    secure: Secure = "none",
    seeds: Annotated[int, typer.Option(help="Number of seeds for each method.")] = 5,
    budget: Annotated[
        str, typer.Option(help="Time budget of each run, e.g. 90s or '10m cpu'.")
    ] = "10m",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Settings for every method that has them: key=value …"),
    ] = None,
    data_root: DataRoot = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the comparison; give it again to resume.")
    ] = Path("runs/comparison"),
) -> None:
    """Compare methods on the same clients, with the same seeds and budget."""
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
        typer.Argument(help="Table or figure, e.g. fedgraph-fig7; list shows all of them."),
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
        int | None, typer.Option(help="Number of seeds for each row. [default: the row's own]")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Tables: budget of each search, e.g. 90s or '10m cpu'. [default: 10m]"),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Figures: training rounds of each run. [default: 100]")
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Figures: episodes of training a policy. [default: 16]")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One dataset, one seed and short runs.")
    ] = False,
    secure: Secure = "none",
    data_root: DataRoot = None,
) -> None:
    """Reproduce a table or figure of a paper. Run the same command again to resume."""
    from autofgl.experiments.papers import QUICK_BUDGET, VIEWS
    from autofgl.experiments.plan import Options

    if name == "list":
        _list_reproducible()
        return
    view = VIEWS.get(name)
    source = view.table if view else name
    _check_reproducible(name, source, budget, rounds if rounds is not None else episodes)
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


def _check_reproducible(name: str, source: str, budget: str | None, length: int | None) -> None:
    """Refuse what no paper has, and limits of runs that it does not have."""
    from autofgl.experiments.papers import FIGURES, TABLES, VIEWS

    if source not in TABLES and source not in FIGURES:
        raise unknown_name("table or figure", name, [*TABLES, *FIGURES, *VIEWS])
    if source in FIGURES and budget is not None:
        raise UserError("--budget is for tables: the runs of a figure end after --rounds")
    if source in TABLES and length is not None:
        raise UserError(
            "--rounds and --episodes are for figures: the searches of a table end after --budget"
        )


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
