"""Runs at sites: from a YAML file on the server's machine, or all sites on this machine."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.config import Layers, RunConfig, check_config, sort_settings
from autofgl.errors import UserError
from autofgl.execution import DataSummary
from autofgl.federation.engines.nvflare.engine import LARGEST_ANSWER
from autofgl.federation.engines.nvflare.processes import Loopback, running
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import load_graph, save_graphs
from autofgl.methods.catalog import find_method
from autofgl.runs.files import file_bytes, parse_json
from autofgl.runs.folder import Result, RunFolder, read_config_file
from autofgl.runtime.specs import own_code
from autofgl.sites.coordinator import Coordinator, Deployment
from autofgl.sites.join import SiteConfig
from autofgl.sites.policy import POLICY_FILE, Policy, disclosed
from autofgl.sites.provisioning import open_kit

_DATA_KEYS = ("dataset", "graphs", "clients", "data_root", "partition")


def submit_run(file: Path, kits: Path, out: Path, console: Console | None) -> Result:
    """Begin a run at all sites, in a new run folder ``out``.

    The file has the method, secure, seed, budget and settings; the folder ``kits`` has the server's
    and the coordinator's kits.
    """
    config = read_run(file)
    layers = sort_settings(config)
    whole = {**config.model_dump(mode="json"), "settings": layers.dump(config)}
    folder = RunFolder.create(out, whole)
    return _coordinate(config, kits, folder, console)


def resume_run(out: Path, kits: Path, budget: str | None, console: Console | None) -> Result:
    """Go on with a run at sites after its coordinator was stopped or killed."""
    folder = RunFolder.open(out)
    if folder.finished:
        return Result.read(folder.path)
    values = folder.read_config()
    config = check_config({**values, "budget": budget} if budget else values)
    return _coordinate(config, kits, folder, console)


def read_run(file: Path) -> RunConfig:
    """A run's file, in which nothing is said of data: that is the sites' own."""
    values = read_config_file(file)
    for key in _DATA_KEYS:
        if key in values:
            raise UserError(f"{file}: '{key}' has no place here: every site has its own graph")
    config = check_config({**values, "partition": "given", "engine": "nvflare"})
    if "directed" in config.settings:
        own = "a site's graph file says itself that its edges are directed"
        raise UserError(f"setting 'directed' has no effect on sites: {own}")
    if find_method(config.method).pools:
        raise UserError(f"{config.method} pools the graphs: it cannot run across sites")
    return config


def run_as_sites(
    config: RunConfig,
    layers: Layers,
    clients: Sequence[ClientGraph],
    data: DataSummary,
    folder: RunFolder,
    console: Console | None,
    secret: Path | None = None,
) -> Result:
    """``--engine nvflare``: start a server and a site for each client here, run, and end them all.

    Keys, certificates and the clients' graph files are in a temporary folder that is deleted at the
    end. Checkpoints are where the in-process engine puts them.
    """
    graphs = find_method(config.method).arrange(clients)
    names = [graph.name for graph in graphs]
    with Loopback(names) as loopback:
        paths = save_graphs(loopback.folder / "graphs", graphs)
        for name, path in zip(names, paths, strict=True):
            kit = loopback.kits.sites[name]
            policy = kit / "local" / POLICY_FILE
            write_text(policy, allowing(config, layers.method).to_text())
            state = str(folder.path.absolute())
            SiteConfig(
                name=name,
                sites=tuple(names),
                graph=str(path),
                state=state,
                policy=str(policy),
                secret="" if secret is None else str(secret.absolute()),
                device=config.device,
            ).write(kit)
        loopback.start()
        kits = loopback.kits
        deployment = Deployment(kits.server, kits.coordinator, names, await_end=False)
        run = folder.checkpoints.name
        return Coordinator(config, layers, deployment, run, folder, console).run(data)


def allowing(config: RunConfig, settings: Any) -> Policy:
    """What this machine's own sites allow: the run that was asked for here, of any size."""
    limits = ("max_rounds", "max_parameters", "max_classes", "max_bytes")
    return Policy.of(
        {
            "methods": [config.method],
            "models": list(own_code(settings)),
            "secure": [config.secure],
            "min_parties": 1,
            "allow": disclosed(settings),
            "max_message": LARGEST_ANSWER,
            **dict.fromkeys(limits, 0),
        }
    )


def _coordinate(
    config: RunConfig, kits: Path, folder: RunFolder, console: Console | None
) -> Result:
    kit = open_kit(kits / "server", site=False)
    layers = sort_settings(config)
    path = layers.method.server_data.file
    server_graph = load_graph(path, seed=config.seed) if path else None
    if not running(kit.path) and console is not None:
        console.print("the server is not running here: start it with autofgl site server")
    deployment = Deployment(kit.path, kits / "coordinator", kit.sites)
    coordinator = Coordinator(config, layers, deployment, _run_name(folder), folder, console)
    with folder.in_use():
        return coordinator.run(DataSummary(len(kit.sites), None, server_graph))


def _run_name(folder: RunFolder) -> str:
    """The name under which the sites keep their states; fixed when the run is begun."""
    note = folder.path / "sites.json"
    if not note.exists():
        stem = re.sub(r"[^A-Za-z0-9-]+", "-", folder.path.absolute().name).strip("-") or "run"
        stamp = hex(folder.config.stat().st_mtime_ns)[2:]
        write_text(note, json.dumps({"run": f"{stem[:60]}-{stamp}"}) + "\n")
    name = parse_json(note, file_bytes(note)).get("run")
    if not isinstance(name, str):
        raise UserError(f"{note} is damaged: it has no name of a run; put back a copy of it")
    return name
