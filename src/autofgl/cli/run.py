"""Commands that run a method, or look into what a run has left: run, diagnose."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from autofgl.cli.show import (
    console,
    show_clients,
    show_line,
    show_notices,
    show_ranked,
    show_result,
)
from autofgl.errors import UserError
from autofgl.identity import read_secret

if TYPE_CHECKING:
    from autofgl.runs.folder import Result

RUN_EXAMPLE = (
    "Example: autofgl run fedavg --dataset cora --clients 3 --set model=gcn lr=0.02, or: "
    "autofgl run fedavg --model my_net.py:MyNet"
)
AUTO_EXAMPLE = "Example: autofgl auto --graphs bank.npz hospital.npz city.npz --budget 10m"

Dataset: TypeAlias = Annotated[
    str | None, typer.Option(help="Dataset (see autofgl datasets). [default: cora]")
]
Graphs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Graph files, one for each client; a single file with --clients is cut."),
]
Clients: TypeAlias = Annotated[int | None, typer.Option(help="Number of clients. [default: 3]")]
Partition: TypeAlias = Annotated[
    str | None, typer.Option(help="How to cut the graph into clients. [default: metis]")
]
SecureMode: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Secure sums: none, shares or ckks. [default: the method's own]"),
]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Random seed. [default: 0]")]
Set: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Settings: key=value … (see autofgl methods METHOD)."),
]
Privacy: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        help="Differential privacy of each client, e.g. epsilon=8 or epsilon=8,clip=0.5; with "
        "secure sums."
    ),
]
ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="YAML file with options; the command line overrides it.")
]
DataRoot: TypeAlias = Annotated[
    str | None, typer.Option(help="Folder with raw datasets. [default: $AUTOFGL_DATA]")
]
Secure: TypeAlias = Annotated[str, typer.Option(help="Secure sums: none, shares or ckks.")]
Out: TypeAlias = Annotated[
    Path | None, typer.Option(help="Run folder. [default: a new one in runs/]")
]
Resume: TypeAlias = Annotated[Path | None, typer.Option(help="Resume the run in this folder.")]
Device: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Where networks compute: auto, cpu, cuda or mps. [default: auto]"),
]
Engine: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Where clients run: inprocess, or nvflare for one process per client with "
        "mutual TLS. [default: inprocess]"
    ),
]
Time: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Start no round after this time, e.g. 90s, 1h30m or '10m cpu'."),
]
Secret: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with a secret that all sites have and the server does not; they prove who they "
        "are with it, besides their certificates.",
    ),
]


def run_command(
    method: Annotated[
        str | None,
        typer.Argument(
            help="Method (see autofgl methods), or your own as module:Class or file.py:Class; not "
            "needed with --resume."
        ),
    ] = None,
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
    partition: Partition = None,
    secure: SecureMode = None,
    seed: Seed = None,
    budget: Time = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Network: a family such as gcn, or your own nn.Module with forward(x, edge_index) "
            "as file.py:Class or module:Class. [default: the method's own]"
        ),
    ] = None,
    set_: Set = None,
    dp: Privacy = None,
    config: ConfigFile = None,
    engine: Engine = None,
    device: Device = None,
    data_root: DataRoot = None,
    out: Out = None,
    resume: Resume = None,
    secret: Secret = None,
) -> None:
    """Run a method; the run folder gets the model, history, results and a report."""
    given: dict[str, Any] = {"method": method, "dataset": dataset, "graphs": graphs or None}
    given |= {"data_root": data_root, "clients": clients, "seed": seed, "engine": engine}
    given |= {"partition": partition, "secure": secure, "budget": budget, "settings": set_ or None}
    given |= {"dp": dp or None, "model": model, "device": device}
    _run_or_resume(given, config, out, resume, secret)


def auto_command(
    dataset: Dataset = None,
    graphs: Graphs = None,
    clients: Clients = None,
    partition: Partition = None,
    secure: Annotated[
        str | None, typer.Option(help="Secure sums: none, shares or ckks. [default: shares]")
    ] = None,
    seed: Seed = None,
    budget: Time = None,
    objective: Annotated[
        str | None,
        typer.Option(
            help="What is judged on validation nodes: accuracy, balanced_accuracy, macro_f1, "
            "auroc or average_precision; after a comma what counts besides, some of size, latency "
            "and bytes. [default: accuracy]"
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Settings: key=value … (see autofgl methods auto)."),
    ] = None,
    config: ConfigFile = None,
    engine: Engine = None,
    device: Device = None,
    data_root: DataRoot = None,
    out: Out = None,
    resume: Resume = None,
    secret: Secret = None,
) -> None:
    """Find the best model for every client, and prove it: a race, a search, a certificate."""
    given: dict[str, Any] = {"dataset": dataset, "graphs": graphs or None, "clients": clients}
    given |= {"data_root": data_root, "seed": seed, "engine": engine, "device": device}
    given |= {"partition": partition, "secure": secure, "budget": budget}
    settings = [*(set_ or []), *([f"objective={objective}"] if objective else [])]
    if resume is None:
        if (engine or "inprocess") == "inprocess":  # all clients are here
            settings = ["collect_models=true", *settings]
        given["method"] = "auto"
    _run_or_resume({**given, "settings": settings or None}, config, out, resume, secret)


def _run_or_resume(
    given: dict[str, Any],
    config: Path | None,
    out: Path | None,
    resume: Path | None,
    secret: Path | None,
) -> None:
    given = {key: value for key, value in given.items() if value is not None}
    if resume is None:
        show_result(_start(given, config, out, secret))
    else:
        show_result(_resume(resume, given, config, out, secret))


def diagnose_command(
    folder: Annotated[Path, typer.Argument(help="Folder of an fl-agcns run.")],
    networks: Annotated[int, typer.Option(help="Number of networks to train on their own.")] = 20,
    rounds: Annotated[int, typer.Option(help="Training rounds of each network.")] = 50,
) -> None:
    """Measure how well the SuperNet of an fl-agcns run ranks networks."""
    from autofgl import api

    measured = api.diagnose(folder, networks=networks, rounds=rounds, report=show_ranked)
    show_line(
        f"rank correlation over {len(measured.networks)} networks: "
        f"loss τ {measured.kendall_loss:.2f} ρ {measured.spearman_loss:.2f}, "
        f"accuracy τ {measured.kendall_accuracy:.2f} ρ {measured.spearman_accuracy:.2f}"
    )


def read_values(given: dict[str, Any], file: Path | None) -> dict[str, Any]:
    """The configuration that options and a file give together; Cora if they name no graphs."""
    from autofgl.config import parse_settings, privacy_settings
    from autofgl.methods.catalog import METHODS
    from autofgl.runs.folder import read_config_file

    values = read_config_file(file) if file else {}
    settings = {**(values.get("settings") or {}), **parse_settings(given.pop("settings", []))}
    if "model" in given:
        settings["model"] = given.pop("model")
    if "dp" in given:
        settings |= privacy_settings(given.pop("dp"))
    values = {**values, **given, "settings": settings}
    if "method" not in values:
        raise UserError(f"name a method: autofgl run {'|'.join(METHODS)}")
    if not values.get("dataset") and not values.get("graphs"):
        values["dataset"] = "cora"
    values["graphs"] = [str(Path(path).absolute()) for path in values.get("graphs") or ()]
    return values


def _start(
    given: dict[str, Any], file: Path | None, out: Path | None, secret: Path | None
) -> "Result":
    from autofgl import api
    from autofgl.config import check_config, check_device, sort_settings
    from autofgl.runs.folder import RunFolder

    config = check_config(read_values(given, file))
    layers = sort_settings(config)
    show_notices(layers.notices)
    folder = out or api.default_folder(config)
    if secret is not None:
        read_secret(secret)
    RunFolder.check_new(folder)
    check_device(config.device)
    begin = time.perf_counter()
    clients = api.load_clients(config, layers)
    show_clients(clients, time.perf_counter() - begin)
    return api.start_run(config, clients, folder, console(), secret)


def _resume(
    folder: Path,
    given: dict[str, Any],
    file: Path | None,
    out: Path | None,
    secret: Path | None,
) -> "Result":
    from autofgl import api
    from autofgl.config import check_config, sort_settings
    from autofgl.plugins import absolute_name
    from autofgl.runs.folder import RunFolder

    budget, device = given.pop("budget", None), given.pop("device", None)
    values = RunFolder.open(folder).read_config()
    if "method" in given:
        given["method"] = absolute_name(given["method"])
    if given.get("model") and absolute_name(given["model"]) == values["settings"].get("model"):
        del given["model"]
    if file or out or any(values.get(key) != value for key, value in given.items()):
        way = "give --resume DIR, --budget, --device and --secret only"
        raise UserError(f"a resumed run keeps its configuration: {way}")
    show_notices(sort_settings(check_config(values)).notices)
    return api.resume(folder, budget=budget, device=device, secret=secret, console=console())
