"""From a configuration to a finished run: the one place that knows all parts."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.config import Layers, RunConfig, check_config, sort_settings
from autofgl.errors import UserError
from autofgl.execution import Known, execute
from autofgl.federation.engines.inprocess import InProcess
from autofgl.graphs import datasets
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.cut import withhold
from autofgl.graphs.files import load_graph, load_graphs
from autofgl.graphs.partition import describe, partition
from autofgl.graphs.validation import validate_clients
from autofgl.methods.catalog import find_method
from autofgl.methods.fl_agcns.controller import FLAGCNS
from autofgl.methods.fl_agcns.diagnosis import Quality, Ranked, supernet_quality
from autofgl.runs.checkpoint import load_latest
from autofgl.runs.folder import RunFolder
from autofgl.runs.result import Result
from autofgl.seeding import numpy_generator


def run(
    method: str,
    clients: Sequence[ClientGraph],
    *,
    secure: str | None = None,
    seed: int = 0,
    budget: str | None = None,
    engine: str = "inprocess",
    out: str | Path | None = None,
    console: Console | None = None,
    **settings: Any,
) -> Result:
    """Run a method on client graphs.

    Args:
        method: Name of the method, e.g. ``fedavg``.
        clients: One graph for each client.
        secure: How sums are protected; the method's own choice if not given.
        seed: Root of all chance.
        budget: Time after which no further round is begun, such as ``10m`` or ``10m cpu``.
        engine: ``inprocess``, or ``nvflare`` for a process per client.
        out: Run folder; a new one below ``runs/`` if not given.
        console: Where progress is shown; nothing is shown without one.
        **settings: The method's settings, as with ``--set``.

    Returns:
        The finished run.

    Example:
        >>> import autofgl
        >>> clients = autofgl.partition(autofgl.load("cora"), clients=3, seed=0)
        >>> result = autofgl.run("fedavg", clients, rounds=5)  # doctest: +SKIP
    """
    config = check_config(
        {
            "method": method,
            "clients": len(clients),
            "partition": "given",
            "secure": secure,
            "seed": seed,
            "budget": budget,
            "engine": engine,
            "settings": settings,
        }
    )
    return start(config, clients, Path(out) if out else default_folder(config), console)


def start(
    config: RunConfig, clients: Sequence[ClientGraph], out: Path, console: Console | None
) -> Result:
    """Begin a new run in a new folder.

    Raises:
        UserError: Something in the configuration, the graphs or the folder is wrong.
    """
    method = find_method(config.method)
    layers = sort_settings(config, method.Settings)
    validate_clients(clients)
    method.check(method.arrange(clients), layers.method, config.secure)
    held = load_held(config, layers)
    if held is not None:
        validate_clients([*clients, replace(held, name="the server's graph")])
    whole = {**config.model_dump(mode="json"), "settings": layers.dump(config)}
    folder = RunFolder.create(out, {**whole, "clients": len(clients)})
    write_text(folder.data, json.dumps(_data_record(clients), indent=2) + "\n")
    return _execute(config, layers, clients, held, folder, console)


def resume(
    out: str | Path,
    clients: Sequence[ClientGraph] | None = None,
    *,
    budget: str | None = None,
    console: Console | None = None,
) -> Result:
    """Go on with a run where its last checkpoint was made; a finished run is just read.

    Args:
        out: The run folder.
        clients: The client graphs, if the run was started on graphs in memory.
        budget: Another time budget, counted from the very beginning of the run.
        console: Where progress is shown.

    Raises:
        UserError: There is no run, or its graphs cannot be found.
    """
    folder = RunFolder.open(Path(out))
    if folder.finished:
        return Result.read(folder.path)
    values = folder.read_config()
    config = check_config({**values, "budget": budget} if budget else values)
    layers = sort_settings(config, find_method(config.method).Settings)
    graphs = clients if clients is not None else load_clients(config, layers)
    validate_clients(graphs)
    _check_same_data(folder, graphs)
    return _execute(config, layers, graphs, load_held(config, layers), folder, console)


def diagnose(
    out: str | Path,
    clients: Sequence[ClientGraph] | None = None,
    *,
    networks: int = 20,
    rounds: int = 50,
    report: Callable[[Ranked], None] | None = None,
) -> Quality:
    """How well the SuperNet of a run ranks networks; also left in ``diagnosis.json``.

    Args:
        out: The folder of an ``fl-agcns`` run, finished or not.
        clients: The client graphs, if the run was started on graphs in memory.
        networks: How many networks are trained on their own.
        rounds: For how long.
        report: Called with every network when it is done.

    Raises:
        UserError: The run has no SuperNet.
    """
    folder = RunFolder.open(Path(out))
    config = check_config(folder.read_config())
    method_class = find_method(config.method)
    if not issubclass(method_class, FLAGCNS):
        raise UserError(f"{folder.path} is a run of {config.method}, which has no SuperNet")
    if networks < 3:
        raise UserError("a ranking needs at least 3 networks")
    layers = sort_settings(config, method_class.Settings)
    graphs = clients if clients is not None else load_clients(config, layers)
    _check_same_data(folder, graphs)
    federation = _federation(config, layers, graphs, folder)
    try:
        method = method_class(federation, layers.method, config.seed, config.secure)
        state = load_latest(folder.checkpoints, federation)
        method.connect()
        method.load_state(state["method"])
        quality = supernet_quality(method, networks, rounds, report)
    finally:
        federation.close()
    text = json.dumps({"rounds": rounds, **quality.to_json()}, indent=2, allow_nan=False)
    write_text(folder.path / "diagnosis.json", text + "\n")
    return quality


def load_clients(config: RunConfig, layers: Layers) -> list[ClientGraph]:
    """The client graphs that a configuration names: files, or a dataset that is cut.

    Raises:
        UserError: A name is unknown, a file is malformed, or nothing is named.
    """
    if config.partitioned:
        graph = _load_whole(config, layers)
        graph, _ = _withheld(graph, config, layers)
        count = config.clients or 3
        return partition(graph, count, config.partition, config.seed, layers.partition)
    if not config.graphs:
        raise UserError("this run was started on graphs in memory: resume it from Python")
    return load_graphs(config.graphs, seed=config.seed)


def load_held(config: RunConfig, layers: Layers) -> ClientGraph | None:
    """The graph that the server itself has: a file, or nodes kept from all clients.

    Raises:
        UserError: The file is malformed, or there is no graph to keep nodes from.
    """
    share, path = _server_data(layers)
    if path:
        return load_graph(path, seed=config.seed)
    if not share:
        return None
    if not config.partitioned:
        raise UserError(
            "server_share needs one graph that is cut into clients; with graphs of their own, give "
            "the server's as server_graph=FILE"
        )
    return _withheld(_load_whole(config, layers), config, layers)[1]


def _load_whole(config: RunConfig, layers: Layers) -> ClientGraph:
    if config.dataset is None:
        return load_graph(config.graphs[0], seed=config.seed)
    return datasets.load(
        config.dataset, seed=config.seed, data_root=config.data_root, settings=layers.data
    )


def _server_data(layers: Layers) -> tuple[float, str]:
    """What a method says of data at the server: share of the nodes, and file."""
    said = layers.method.model_dump()
    return said.get("server_share", 0.0), said.get("server_graph", "")


def _withheld(
    graph: ClientGraph, config: RunConfig, layers: Layers
) -> tuple[ClientGraph, ClientGraph | None]:
    """What is left for the clients, and what the server keeps."""
    share, path = _server_data(layers)
    if path or not share:
        return graph, None
    return withhold(graph, share, numpy_generator(config.seed, "server"))


def _data_record(clients: Sequence[ClientGraph]) -> dict[str, Any]:
    """What ``data.json`` holds: sizes, cut, and digests to know the graphs again."""
    digests = {client.name: client.fingerprint() for client in clients}
    return {**describe(clients).to_dict(), "digests": digests}


def _check_same_data(folder: RunFolder, clients: Sequence[ClientGraph]) -> None:
    if not folder.data.exists():
        return  # killed before the first round: nothing was learnt from the graphs
    recorded = json.loads(folder.data.read_text())["digests"]
    found = {client.name: client.fingerprint() for client in clients}
    changed = sorted(name for name in recorded | found if recorded.get(name) != found.get(name))
    if changed:
        raise UserError(
            f"the graphs of {', '.join(changed)} are not those that {folder.path} was started on: "
            "start a new run"
        )


def default_folder(config: RunConfig) -> Path:
    """A new folder below ``runs/``, named after the run."""
    data = (config.dataset or "graphs").replace(":", "-")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{config.method}-{data}-seed{config.seed}-{stamp}"
    tries = [path, *(path.with_name(f"{path.name}-{index}") for index in range(2, 1000))]
    return next(candidate for candidate in tries if not candidate.exists())


def _execute(
    config: RunConfig,
    layers: Layers,
    clients: Sequence[ClientGraph],
    held: ClientGraph | None,
    folder: RunFolder,
    console: Console | None,
) -> Result:
    known = Known(len(clients), describe(clients).cut_share, held)
    if config.engine == "nvflare":
        from autofgl.sites.submit import run_as_sites

        return run_as_sites(config, layers, clients, known, folder, console)
    federation = _federation(config, layers, clients, folder)
    try:
        return execute(config, layers, federation, known, folder, console)
    finally:
        federation.close()


def _federation(
    config: RunConfig, layers: Layers, clients: Sequence[ClientGraph], folder: RunFolder
) -> InProcess:
    method = find_method(config.method)
    factories = {
        graph.name: method.party(graph, layers.method, config.seed, config.secure)
        for graph in method.arrange(clients)
    }
    return InProcess(factories, folder=folder.checkpoints)
