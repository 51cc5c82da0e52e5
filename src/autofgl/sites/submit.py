"""A run at real sites: from a YAML file to a run folder on the server's machine."""

import json
import re
from pathlib import Path

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.config import RunConfig, check_config, read_config_file, sort_settings
from autofgl.errors import UserError
from autofgl.execution import Known
from autofgl.federation.engines import processes
from autofgl.graphs.files import load_graph
from autofgl.methods.catalog import find_method
from autofgl.methods.method import Method
from autofgl.runs.folder import RunFolder
from autofgl.runs.result import Result
from autofgl.sites.coordinator import Coordinator, Venue
from autofgl.sites.kits import open_kit

_OWN = ("dataset", "graphs", "clients", "data_root", "partition")


def submit(file: Path, kits: Path, out: Path, console: Console | None) -> Result:
    """Begin a run at all sites.

    Args:
        file: The run: method, secure, seed, budget, settings.
        kits: Folder with the server's and the coordinator's kits.
        out: A new run folder.
        console: Where progress is shown.

    Raises:
        UserError: The file is wrong, or a site refuses.
    """
    config = read_run(file)
    layers = sort_settings(config, find_method(config.method).Settings)
    whole = {**config.model_dump(mode="json"), "settings": layers.dump(config)}
    folder = RunFolder.create(out, whole)
    return _coordinate(config, kits, folder, console)


def resume(out: Path, kits: Path, budget: str | None, console: Console | None) -> Result:
    """Go on with a run at sites after its coordinator was stopped or killed."""
    folder = RunFolder.open(out)
    if folder.finished:
        return Result.read(folder.path)
    values = folder.read_config()
    config = check_config({**values, "budget": budget} if budget else values)
    return _coordinate(config, kits, folder, console)


def read_run(file: Path) -> RunConfig:
    """A run's file, in which nothing is said of data: that is the sites' own.

    Raises:
        UserError: A key or a value is wrong.
    """
    values = read_config_file(file)
    for key in _OWN:
        if key in values:
            raise UserError(f"{file}: '{key}' has no place here: every site has its own graph")
    config = check_config({**values, "partition": "given", "engine": "nvflare"})
    if find_method(config.method).arrange.__func__ is not Method.arrange.__func__:  # type: ignore[attr-defined]
        raise UserError(f"{config.method} pools the graphs: it cannot run across sites")
    return config


def _coordinate(
    config: RunConfig, kits: Path, folder: RunFolder, console: Console | None
) -> Result:
    kit = open_kit(kits / "server", site=False)
    layers = sort_settings(config, find_method(config.method).Settings)
    path = layers.method.model_dump().get("server_graph", "")
    held = load_graph(path, seed=config.seed) if path else None
    if not processes.running(kit.path) and console is not None:
        console.print("the server is not running here: start it with autofgl site server")
    venue = Venue(kit.path, kits / "coordinator", kit.sites)
    coordinator = Coordinator(config, layers, venue, _run_name(folder), folder, console)
    return coordinator.run(Known(len(kit.sites), held=held))


def _run_name(folder: RunFolder) -> str:
    """The name under which the sites keep their states; fixed when the run is begun."""
    note = folder.path / "sites.json"
    if not note.exists():
        stem = re.sub(r"[^A-Za-z0-9-]+", "-", folder.path.absolute().name).strip("-") or "run"
        stamp = hex(folder.config.stat().st_mtime_ns)[2:]
        write_text(note, json.dumps({"run": f"{stem[:60]}-{stamp}"}) + "\n")
    return str(json.loads(note.read_text())["run"])
