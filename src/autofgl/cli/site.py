"""``autofgl site``: everything that operators of a federation across machines need."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from autofgl.cli.run import Device, Out, Resume, Secret
from autofgl.cli.show import console, show_line, show_result, show_table
from autofgl.errors import UserError
from autofgl.runs.folder import RunFolder, read_config_file

app = typer.Typer(
    name="site",
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Run across machines: certificates, server, sites, runs.",
    epilog="Example: autofgl site provision sites.yaml",
)

_Kits = Annotated[Path, typer.Option(help="Folder with the kits.")]


@app.command("provision", epilog="Example: autofgl site provision sites.yaml")
def provision_command(
    project: Annotated[Path, typer.Argument(help="YAML with server, port, sites and days.")],
    out: Annotated[Path, typer.Option(help="Folder for the kits.")] = Path("kits"),
) -> None:
    """Make a CA and a startup kit for each machine; running it again renews them all."""
    read_config_file(project)

    from autofgl.sites.provisioning import provision_kits

    kits = provision_kits(project, out)
    show_line(f"server:       {kits.server}")
    show_line(f"coordinator:  {kits.coordinator} (same machine as the server)")
    for name, kit in kits.sites.items():
        note = f"send it to {name} over a secure channel: it contains a private key"
        show_line(f"site:         {kit} ({note})")
    show_line(f"CA:           {kits.authority} (keep it offline)")


@app.command("server", epilog="Example: autofgl site server --kit kits/server")
def server_command(
    kit: Annotated[Path, typer.Option(help="The server's kit.")] = Path("kits/server"),
) -> None:
    """Run the server until Ctrl-C."""
    from autofgl.sites.provisioning import open_kit, run_kit

    run_kit(open_kit(kit, site=False), show_line)


@app.command("init", epilog="Example: autofgl site init --kit north --methods fedavg,sfgnn")
def init_command(
    kit: Annotated[Path, typer.Option(help="This site's kit.")] = Path(),
    policy: Annotated[
        Path | None, typer.Option(help="File to write. [default: KIT/policy.yaml]")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Methods that may run, separated by commas.")
    ] = None,
    secure: Annotated[
        str | None, typer.Option(help="Secure modes that may be used. [default: shares]")
    ] = None,
    min_parties: Annotated[
        int | None, typer.Option(help="Fewest sites in a run and in a sum. [default: 3]")
    ] = None,
    allow: Annotated[
        str | None,
        typer.Option(help="Settings that show more than sums, e.g. share=all. [default: none]"),
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(help="Most rounds of a run. [default: 20000]")
    ] = None,
    max_parameters: Annotated[
        int | None, typer.Option(help="Most parameters of a network. [default: 20000000]")
    ] = None,
    replace: Annotated[bool, typer.Option(help="Replace a policy that is there.")] = False,
) -> None:
    """Say what this site takes part in: asks in a terminal, unless options say it.

    Without options and without a terminal the file is strict and lists no method: nothing runs.
    """
    from autofgl.sites.provisioning import init_policy

    lists = {"methods": methods, "secure": secure, "allow": allow}
    numbers = {
        "min_parties": min_parties,
        "max_rounds": max_rounds,
        "max_parameters": max_parameters,
    }
    given = any(value is not None for value in (*lists.values(), *numbers.values()))
    if not given and sys.stdin.isatty():
        lists, numbers = _ask_owner()
    rules = _rules(lists, numbers)
    path = init_policy(kit, policy, rules, replace)
    show_line(f"policy: {path}")
    if not rules.get("methods"):
        show_line("it lists no method, so nothing runs here: add some under 'methods'")


def _rules(lists: dict[str, str | None], numbers: dict[str, int | None]) -> dict[str, Any]:
    """The rules of a policy that were given."""
    rules: dict[str, Any] = {
        key: [name.strip() for name in text.split(",") if name.strip()]
        for key, text in lists.items()
        if text is not None
    }
    return rules | {key: number for key, number in numbers.items() if number is not None}


def _ask_owner() -> tuple[dict[str, str | None], dict[str, int | None]]:
    """What the owner of a site answers, with the strict value wherever nothing is typed."""
    from autofgl.methods.catalog import METHODS
    from autofgl.sites.policy import Policy

    strict = Policy()
    show_line(f"Methods: {', '.join(METHODS)}")
    methods = typer.prompt("Methods that may run, separated by commas", default="")
    secure = typer.prompt("Secure modes that may be used", default=", ".join(strict.secure))
    fewest = typer.prompt("Fewest sites in a run and in a sum", strict.min_parties, type=int)
    question = (
        "Settings that show more than sums (collect_models, share=all, mode=threshold, match)"
    )
    allow = typer.prompt(question, default="")
    rounds = typer.prompt("Most rounds of a run", strict.max_rounds, type=int)
    size = typer.prompt("Most parameters of a network", strict.max_parameters, type=int)
    return {"methods": methods, "secure": secure, "allow": allow}, {
        "min_parties": fewest,
        "max_rounds": rounds,
        "max_parameters": size,
    }


@app.command("join", epilog="Example: autofgl site join --kit north --graph own.npz")
def join_command(
    graph: Annotated[Path, typer.Option(help="This site's graph file; it never leaves the site.")],
    kit: Annotated[Path, typer.Option(help="This site's kit.")] = Path(),
    policy: Annotated[
        Path | None, typer.Option(help="What this site allows. [default: KIT/policy.yaml]")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints. [default: KIT/state]")
    ] = None,
    secret: Secret = None,
    device: Device = None,
) -> None:
    """Join as a site, with its own graph and policy, until Ctrl-C."""
    from autofgl.sites.policy import Policy
    from autofgl.sites.provisioning import open_kit, prepare_site, run_kit

    opened = open_kit(kit, site=True)
    site = prepare_site(opened, graph, policy, state, secret, device or "auto")
    if Policy.read(Path(site.policy)).closed:
        show_line(f"{site.policy} allows nothing yet: say what this site takes part in, with "
                  f"autofgl site init --kit {kit}")  # fmt: skip
    run_kit(opened, show_line)


@app.command("submit", epilog="Example: autofgl site submit run.yaml --out runs/first")
def submit_command(
    run: Annotated[
        Path | None, typer.Argument(help="YAML with method, secure, seed, budget, settings.")
    ] = None,
    kits: _Kits = Path("kits"),
    out: Out = None,
    resume: Resume = None,
    budget: Annotated[
        str | None, typer.Option(help="With --resume: another time budget, e.g. 10m.")
    ] = None,
) -> None:
    """Start a run at all sites; call it on the server's machine."""
    if (run is None) == (resume is None):
        raise UserError("give either a run's YAML file or --resume DIR")
    if resume is not None:
        RunFolder.open(resume)
        from autofgl.sites.submit import resume_run

        show_result(resume_run(resume, kits, budget, console()))
    elif run is not None:
        read_config_file(run)
        from autofgl.sites.submit import submit_run

        target = out or Path("runs") / f"{run.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
        show_result(submit_run(run, kits, target, console()))


@app.command("match", epilog="Example: autofgl site match --kits kits")
def match_sites_command(kits: _Kits = Path("kits")) -> None:
    """Find the edges between all sites, and write them into the sites' graph files.

    Call it on the server's machine, before a run. The policy of each site has to allow it
    (allow: [match]). Each site's log says what was found.
    """
    from autofgl.sites.match import match_sites

    for name, count in match_sites(kits, show_line).items():
        show_line(f"{name}: {count:,} edges to other sites")


@app.command("doctor", epilog="Example: autofgl site doctor --kit north --graph own.npz")
def doctor_command(
    kit: Annotated[Path, typer.Option(help="The kit of a site or of the server.")] = Path(),
    graph: Annotated[Path | None, typer.Option(help="This site's graph file.")] = None,
    schema: Annotated[
        Path | None, typer.Option(help="The schema that the graph file has to have.")
    ] = None,
    state: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints. [default: in the kit]")
    ] = None,
) -> None:
    """Look at certificates, clock, port, versions, policy, schema and disk; say what to do."""
    if not (kit / "kit.yaml").is_file():
        raise UserError(f"{kit} is no kit: make kits with autofgl site provision, or give --kit")

    from autofgl.sites.doctor import WRONG, examine_kit

    findings = examine_kit(kit, graph, schema, state)
    for one in findings:
        show_line(f"{one.state:<6} {one.what:<12} {one.text}")
    wrong = sum(one.state == WRONG for one in findings)
    if wrong:
        raise UserError(f"{wrong} of {len(findings)} checks failed: see the lines marked {WRONG}")


@app.command("status", epilog="Example: autofgl site status --kits kits")
def status_command(kits: _Kits = Path("kits")) -> None:
    """Show which sites are connected to the server."""
    from autofgl.sites.provisioning import open_kit, site_status

    kit = open_kit(kits / "server", site=False)
    rows = list(site_status(kits / "coordinator", list(kit.sites)).items())
    show_table(console(), ("site", "state"), rows)


@app.command("logs", epilog="Example: autofgl site logs --kit north -n 100")
def logs_command(
    kit: Annotated[Path, typer.Option(help="The kit of a site or of the server.")] = Path(),
    lines: Annotated[int, typer.Option("--lines", "-n", help="Number of lines.")] = 40,
) -> None:
    """Show the end of a kit's log and of its last job's log."""
    from autofgl.sites.provisioning import kit_logs

    show_line(kit_logs(kit, lines))


@app.command("stop", epilog="Example: autofgl site stop --kit north")
def stop_command(
    kit: Annotated[Path, typer.Option(help="The kit of a site or of the server.")] = Path(),
) -> None:
    """Stop all processes of a kit, including its jobs."""
    from autofgl.federation.engines.nvflare import processes

    processes.stop_kits(kit)
