"""From a configuration to a finished run: the one place that knows all parts.

Whatever needs torch or NumPy is imported where it is used, after everything that the user has said
is validated: a mistake is answered at once.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofgl.atomic import write_text
from autofgl.config import (
    Layers,
    RunConfig,
    check_config,
    check_device,
    check_files,
    privacy_settings,
    sort_settings,
)
from autofgl.errors import UserError
from autofgl.handover import check_options, hand_over_again, model_name
from autofgl.identity import read_secret
from autofgl.methods.catalog import METHODS, find_method, method_name
from autofgl.runs.folder import Result, RunFolder

if TYPE_CHECKING:
    from rich.console import Console
    from torch import nn

    from autofgl.audit.verdict import Audit
    from autofgl.federation.engines.inprocess import InProcess
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.graphs.objects import ClientsLike
    from autofgl.methods.fl_agcns.diagnosis import Quality, Ranked
    from autofgl.runtime.method import Method


def run(
    method: "str | type[Method]",
    clients: "ClientsLike",
    *,
    secure: str | None = None,
    seed: int = 0,
    budget: str | None = None,
    dp: "float | str | Mapping[str, Any] | None" = None,
    engine: str = "inprocess",
    device: str = "auto",
    out: str | Path | None = None,
    secret: str | Path | None = None,
    console: "Console | None" = None,
    model: "str | nn.Module | Callable[..., nn.Module] | None" = None,
    **settings: Any,
) -> Result:
    """Run a method on client graphs.

    Args:
        method: Name of the method, e.g. ``fedavg``; or a class of one's own, or where it is:
            ``module:Class`` or ``file.py:Class``.
        clients: One graph for each client, in a list or by name: what :func:`autofgl.partition`
            gives, PyG ``Data``, NetworkX graphs, tuples ``(x, edge_index, y)`` or graph files.
        secure: How sums are protected; the method's own choice if not given.
        seed: Random seed.
        budget: Time after which no further round is begun, such as ``10m`` or ``10m cpu``.
        dp: Differential privacy of each client: an epsilon, or as with ``--dp``, such as
            ``"epsilon=8,clip=0.5"`` or ``{"epsilon": 8}``.
        engine: ``inprocess``, or ``nvflare`` for a process per client.
        device: Where networks compute: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        out: Run folder; a new one below ``runs/`` if not given.
        secret: File with a secret by which the clients know each other, as sites may have one.
        console: Where progress is shown; nothing is shown without one.
        model: Network family, e.g. ``gcn``; or a network of one's own: a class or factory that is
            called with the number of features and of classes, a module whose weights are the
            initial ones, or where it is: ``module:Class`` or ``file.py:Class``.
        **settings: The method's settings, as with ``--set``.

    Example:
        >>> import autofgl
        >>> clients = autofgl.partition(autofgl.load("cora"), clients=3, seed=0)
        >>> result = autofgl.run("fedavg", clients, rounds=5)  # doctest: +SKIP
    """
    settings |= privacy_settings(dp) if dp is not None else {}
    settings |= {} if model is None else {"model": model_name(model, engine)}
    values = {"secure": secure, "seed": seed, "budget": budget, "engine": engine}
    values |= {"device": device}
    name = method if isinstance(method, str) else method_name(method)
    config = check_config({"method": name, "partition": "given", **values, "settings": settings})
    layers = sort_settings(config)
    if console is not None:
        for notice in layers.notices:
            console.print(notice, markup=False, highlight=False)

    from autofgl.graphs.objects import take_clients

    graphs = take_clients(clients, seed=seed, directed=layers.data.directed)
    config = config.model_copy(update={"clients": len(graphs)})
    folder = Path(out) if out else default_folder(config)
    return start_run(config, graphs, folder, console, Path(secret) if secret else None)


def auto(
    clients: "ClientsLike",
    *,
    budget: str | None = None,
    secure: str = "shares",
    objective: str = "accuracy",
    **options: Any,
) -> Result:
    """Find the best model for every client, and prove it.

    No method, network, rate or scaling has to be chosen: recipes race, the search goes on from the
    best of them, and every client takes what suits it.

    Args:
        clients: As for :func:`run`.
        budget: Time for all of it, such as ``10m``; without one the settings say how much is tried.
        secure: How sums are protected.
        objective: What is judged on validation nodes, such as ``macro_f1`` or ``auroc``; after a
            comma what counts besides, some of ``size``, ``latency`` and ``bytes``.
        **options: More for :func:`run`, settings included.

    Returns:
        The result: ``model`` is the common one, ``models["bank"]`` that of a client, and
        ``figures["certificate"]`` the proof.

    Example:
        >>> import autofgl
        >>> clients = autofgl.partition(autofgl.load("cora"), clients=3, seed=0)
        >>> result = autofgl.auto(clients, budget="2m")  # doctest: +SKIP
        >>> print(result.figures["certificate"]["sentence"])  # doctest: +SKIP
    """
    if options.get("engine", "inprocess") == "inprocess":
        options.setdefault("collect_models", True)
    return run("auto", clients, budget=budget, secure=secure, objective=objective, **options)


def start_run(
    config: RunConfig,
    clients: "Sequence[ClientGraph]",
    out: Path,
    console: "Console | None",
    secret: Path | None = None,
) -> Result:
    """Begin a new run in a new folder; the clients know each other by the secret in a file."""
    from autofgl.graphs.client_graph import summarize_clients
    from autofgl.graphs.validation import validate_clients

    layers = sort_settings(config)
    if secret is not None:
        read_secret(secret)
    RunFolder.check_new(out)
    check_device(config.device)
    validate_clients(clients)
    server_graph = load_server_graph(config, layers)
    if server_graph is not None:
        validate_clients([*clients, replace(server_graph, name="the server's graph")])
    method = find_method(config.method)
    method.check(method.arrange(clients), layers.method, config.secure)
    check_options(method.network(clients[0], layers.method), config, layers.method)
    whole = {**config.model_dump(mode="json"), "settings": layers.dump(config)}
    record = {**summarize_clients(clients).to_dict(), "digests": _digests(clients)}
    data = json.dumps(record, indent=2) + "\n"
    folder = RunFolder.create(out, {**whole, "clients": len(clients)}, data)
    _keep_schema(config, folder)
    return _execute(config, layers, clients, server_graph, folder, console, secret)


def _keep_schema(config: RunConfig, folder: RunFolder) -> None:
    """Leave the schema of the graph files in the run folder: predictions on tables need it."""
    from autofgl.graphs.origin import common_schema

    text = common_schema(config.graphs)
    if text:
        write_text(folder.schema, text)


def resume(
    out: str | Path,
    clients: "ClientsLike | None" = None,
    *,
    budget: str | None = None,
    device: str | None = None,
    secret: str | Path | None = None,
    console: "Console | None" = None,
    model: "nn.Module | None" = None,
) -> Result:
    """Go on with a run where its last checkpoint was made; a finished run is just read.

    Args:
        out: The run folder.
        clients: The graphs as they were given to :func:`run`, if it was started on graphs in
            memory.
        budget: Another time budget, counted from the very beginning of the run.
        device: Another device than the one that the run began on.
        secret: File with a secret, as in :func:`run`; it may be another one.
        console: Where progress is shown.
        model: The module, if the run was started with one in memory.

    Raises:
        UserError: There is no run, or its graphs cannot be read.
    """
    folder = RunFolder.open(Path(out))
    if model is not None:
        hand_over_again(folder, model)
    if folder.finished:
        return Result.read(folder.path)
    values = folder.read_config()
    changes = {"budget": budget, "device": device}
    config = check_config({**values, **{key: new for key, new in changes.items() if new}})
    check_device(config.device)
    layers = sort_settings(config)
    graphs = _same_clients(folder, config, layers, clients)
    server_graph = load_server_graph(config, layers)
    file = Path(secret) if secret else None
    return _execute(config, layers, graphs, server_graph, folder, console, file)


def diagnose(
    out: str | Path,
    clients: "ClientsLike | None" = None,
    *,
    networks: int = 20,
    rounds: int = 50,
    report: "Callable[[Ranked], None] | None" = None,
) -> "Quality":
    """How well the SuperNet of a run ranks networks; also left in ``diagnosis.json``.

    For the folder of an ``fl-agcns`` run, finished or not; ``clients`` are needed if it was started
    on graphs in memory. ``report`` is called with every network that was trained on its own.
    """
    folder = RunFolder.open(Path(out))
    config = check_config(folder.read_config())
    if networks < 3:
        raise UserError("a ranking needs at least 3 networks")
    no_supernet = UserError(f"{folder.path} is a run of {config.title}, which has no SuperNet")
    if config.method in METHODS and config.method != "fl-agcns":
        raise no_supernet
    layers = sort_settings(config)
    graphs = _same_clients(folder, config, layers, clients)

    from autofgl.methods.fl_agcns.controller import FLAGCNS
    from autofgl.methods.fl_agcns.diagnosis import supernet_quality
    from autofgl.runs.checkpoint import load_latest

    method_class = find_method(config.method)
    if not issubclass(method_class, FLAGCNS):
        raise no_supernet
    with folder.in_use(), closing(_federation(config, layers, graphs, folder)) as federation:
        method = method_class(federation, layers.method, config.seed, config.secure)
        state = load_latest(folder.checkpoints, federation, folder.manifest.run)
        method.connect()
        method.load_state(state["method"])
        quality = supernet_quality(method, networks, rounds, report)
    text = json.dumps({"rounds": rounds, **quality.to_json()}, indent=2, allow_nan=False)
    write_text(folder.path / "diagnosis.json", text + "\n")
    return quality


def audit(
    config: RunConfig,
    clients: "ClientsLike",
    *,
    rounds: int | None = None,
    models: "Mapping[str, Any] | None" = None,
    report: Callable[[str], None] | None = None,
) -> "Audit":
    """What a run of a configuration would give away, from attacks on a short one.

    ``rounds`` are recorded at most; ``models`` are trained networks to infer membership from, those
    of the recorded run if none are given; ``report`` is called with a line on what is done next.
    """
    from autofgl.audit.auditor import run_audit
    from autofgl.graphs.objects import as_clients

    layers = sort_settings(config)
    graphs = as_clients(clients, seed=config.seed, directed=layers.data.directed)
    kind = find_method(config.method)
    kind.check(kind.arrange(graphs), layers.method, config.secure)
    how = (layers.method, config.seed, config.secure, rounds, models, report)
    return run_audit(kind, config.title, graphs, *how)


def audit_folder(
    out: str | Path,
    clients: "ClientsLike | None" = None,
    *,
    rounds: int | None = None,
    report: Callable[[str], None] | None = None,
) -> "Audit":
    """:func:`audit` of the run in a folder, finished or not, left there in ``audit.json``.

    Messages of a run are not kept, so its first rounds are made again; membership is inferred from
    its final networks. ``clients`` are needed if it was started on graphs in memory.
    """
    folder = RunFolder.open(Path(out))
    config = check_config(folder.read_config())
    graphs = _same_clients(folder, config, sort_settings(config), clients)
    models = None
    if folder.finished:
        from autofgl.runs.export import load_network, read_description

        names = read_description(folder.path)["models"]
        models = {name: load_network(folder.path, name) for name in names}
    result = audit(config, graphs, rounds=rounds, models=models, report=report)
    text = json.dumps(result.to_json(), indent=2, allow_nan=False)
    try:
        write_text(folder.path / "audit.json", text + "\n")
    except OSError as error:
        raise UserError(f"cannot write to {folder.path}: {error.strerror}") from error

    from autofgl.report.report import leave_report

    leave_report(folder.path, None)
    return result


def load_clients(config: RunConfig, layers: Layers) -> "list[ClientGraph]":
    """The client graphs that a configuration names: files, or a dataset that is cut."""
    if not config.dataset and not config.graphs:
        raise UserError("this run was started on graphs in memory: resume it from Python")
    check_files(config)
    if config.partitioned:
        from autofgl.graphs.partition import partition

        graph, how = _load_whole(config, layers)[0], layers.partition
        asked = (config.clients or 3, config.partition, config.seed, how)
        return partition(graph, *asked, split=layers.data.split)

    from autofgl.graphs.files import load_graphs

    return load_graphs(config.graphs, seed=config.seed, directed=layers.data.directed)


def load_server_graph(config: RunConfig, layers: Layers) -> "ClientGraph | None":
    """The graph that the server itself has: a file, or nodes kept from all clients."""
    wanted = layers.method.server_data
    if wanted.file:
        from autofgl.graphs.files import load_graph

        return load_graph(wanted.file, seed=config.seed, directed=layers.data.directed)
    if not wanted.share:
        return None
    if not config.partitioned:
        other = "with graphs of their own, give the server's as server_graph=FILE"
        raise UserError(f"server_share needs one graph that is cut into clients; {other}")
    return _load_whole(config, layers)[1]


def _load_whole(config: RunConfig, layers: Layers) -> "tuple[ClientGraph, ClientGraph | None]":
    """What of one graph is for the clients, and what the server keeps of it."""
    from autofgl.graphs.cut import withhold
    from autofgl.graphs.datasets import load
    from autofgl.graphs.files import load_graph
    from autofgl.seeding import numpy_generator

    if config.dataset is None:
        path = config.graphs[0]
        graph = load_graph(path, seed=config.seed, directed=layers.data.directed)
    else:
        root = config.data_root
        graph = load(config.dataset, seed=config.seed, data_root=root, settings=layers.data)
    wanted = layers.method.server_data
    if wanted.file or not wanted.share:
        return graph, None
    rng = numpy_generator(config.seed, "server")
    return withhold(graph, wanted.share, rng, whole_graph=layers.partition.whole_graph)


def _digests(clients: "Sequence[ClientGraph]") -> dict[str, str]:
    """What to know the graphs again by."""
    return {client.name: client.fingerprint() for client in clients}


def _same_clients(
    folder: RunFolder, config: RunConfig, layers: Layers, given: "ClientsLike | None"
) -> "Sequence[ClientGraph]":
    """The graphs that a run was started on, loaded again unless they are given."""
    graphs = given if given is not None else load_clients(config, layers)

    from autofgl.graphs.objects import as_clients

    clients = as_clients(graphs, seed=config.seed, directed=layers.data.directed)
    recorded = folder.read_data().get("digests")
    if recorded is None:
        return clients  # killed before the first round: nothing was learned from the graphs
    digests = _digests(clients)
    changed = sorted(name for name in recorded | digests if recorded.get(name) != digests.get(name))
    if changed:
        others = f"the graphs of {', '.join(changed)} are not those that"
        raise UserError(f"{others} {folder.path} was started on: start a new run")
    return clients


def default_folder(config: RunConfig) -> Path:
    """A new folder below ``runs/``, named after the run."""
    data = (config.dataset or "graphs").rpartition("/")[2].replace(":", "-")
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{config.title}-{data}-seed{config.seed}-{stamp}"
    names = [path, *(path.with_name(f"{path.name}-{index}") for index in range(2, 1000))]
    return next(candidate for candidate in names if not candidate.exists())


def _execute(
    config: RunConfig,
    layers: Layers,
    clients: "Sequence[ClientGraph]",
    server_graph: "ClientGraph | None",
    folder: RunFolder,
    console: "Console | None",
    secret: Path | None,
) -> Result:
    from autofgl.execution import DataSummary, execute
    from autofgl.graphs.client_graph import summarize_clients

    weighted = any(client.edge_weight is not None for client in clients)
    data = DataSummary(len(clients), summarize_clients(clients).cut_share, server_graph, weighted)
    if config.engine == "nvflare":
        from autofgl.sites.submit import run_as_sites

        with folder.in_use():
            return run_as_sites(config, layers, clients, data, folder, console, secret)
    federation = _federation(config, layers, clients, folder, secret)
    with folder.in_use(), closing(federation):
        return execute(config, layers, federation, data, folder, console)


def _federation(
    config: RunConfig,
    layers: Layers,
    clients: "Sequence[ClientGraph]",
    folder: RunFolder,
    secret: Path | None = None,
) -> "InProcess":
    from autofgl.federation.engines.inprocess import InProcess

    method = find_method(config.method)
    factories = {
        graph.name: method.party(graph, layers.method, config.seed, config.secure)
        for graph in method.arrange(clients)
    }
    key = read_secret(secret) if secret is not None else None
    return InProcess(factories, folder=folder.checkpoints, secret=key, device=config.device)
