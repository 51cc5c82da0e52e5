"""``autofgl site``: everything that operators of a federation across machines need."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autofgl.errors import UserError

app = typer.Typer(
    name="site",
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Run across real sites: certificates, server, sites, runs.",
)
_console = Console()

_Kits = Annotated[Path, typer.Option(help="Folder with the kits.")]


@app.command(epilog="Example: autofgl site provision sites.yaml")
def provision(
    project: Annotated[Path, typer.Argument(help="YAML with server, port, sites and days.")],
    out: Annotated[Path, typer.Option(help="Folder for the kits.")] = Path("kits"),
) -> None:
    """Make a CA and a start-up kit for each machine; run again, it renews them all."""
    from autofgl.sites.provisioning import provision_kits as make

    kits = make(project, out)
    _tell(f"server:       {kits.server}")
    _tell(f"coordinator:  {kits.coordinator} (same machine as the server)")
    for name, kit in kits.sites.items():
        _tell(f"site:         {kit} (give it to {name}, over a safe way: it holds a private key)")
    _tell(f"CA:           {kits.authority} (keep it off line)")


@app.command(epilog="Example: autofgl site server --kit kits/server")
def server(
    kit: Annotated[Path, typer.Option(help="The server's kit.")] = Path("kits/server"),
) -> None:
    """Run the server until Ctrl-C."""
    from autofgl.sites.provisioning import open_kit, run_kit

    run_kit(open_kit(kit, site=False), _tell)


@app.command(epilog="Example: autofgl site join --kit north --graph own.npz")
def join(
    graph: Annotated[Path, typer.Option(help="This site's graph file; it never leaves the site.")],
    kit: Annotated[Path, typer.Option(help="This site's kit.")] = Path(),
    policy: Annotated[
        Path | None, typer.Option(help="What this site allows. [default: KIT/policy.yaml]")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints. [default: KIT/state]")
    ] = None,
) -> None:
    """Take part as a site, with its own graph and policy, until Ctrl-C."""
    from autofgl.sites.join import prepare_site
    from autofgl.sites.provisioning import open_kit, run_kit

    opened = open_kit(kit, site=True)
    prepare_site(opened, graph, policy, state)
    run_kit(opened, _tell)


@app.command(epilog="Example: autofgl site submit run.yaml --out runs/first")
def submit(
    run: Annotated[
        Path | None, typer.Argument(help="YAML with method, secure, seed, budget, settings.")
    ] = None,
    kits: _Kits = Path("kits"),
    out: Annotated[
        Path | None, typer.Option(help="Run folder. [default: a new one below runs/]")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="With --resume: another time budget, e.g. 10m.")
    ] = None,
) -> None:
    """Run at all sites, on the server's machine; sites and server may come and go meanwhile."""
    from autofgl.sites import submit as runs
    from autofgl.terminal import show_result

    if (run is None) == (resume is None):
        raise UserError("give either a run's YAML file or --resume DIR")
    if resume is not None:
        result = runs.resume(resume, kits, budget, _console)
    else:
        assert run is not None
        stamp = time.strftime("%Y%m%d-%H%M%S")
        target = out or Path("runs") / f"{run.stem}-{stamp}"
        result = runs.submit(run, kits, target, _console)
    show_result(_console, result)


@app.command()
def status(kits: _Kits = Path("kits")) -> None:
    """Which sites are connected to the server."""
    from autofgl.sites.provisioning import open_kit
    from autofgl.sites.provisioning import site_status as ask
    from autofgl.terminal import show_table

    kit = open_kit(kits / "server", site=False)
    rows = list(ask(kits / "coordinator", list(kit.sites)).items())
    show_table(_console, ("site", "state"), rows)


@app.command()
def logs(
    kit: Annotated[Path, typer.Option(help="The kit of a site or of the server.")] = Path(),
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines.")] = 40,
) -> None:
    """The end of a kit's log and of its last job's."""
    from autofgl.sites.provisioning import kit_logs as read

    _tell(read(kit, lines))


@app.command()
def stop(
    kit: Annotated[Path, typer.Option(help="The kit of a site or of the server.")] = Path(),
) -> None:
    """End the processes of a kit, those of jobs too."""
    from autofgl.federation.engines.nvflare import processes

    processes.stop(kit)


def _tell(message: str) -> None:
    _console.print(message, highlight=False, markup=False, soft_wrap=True)
