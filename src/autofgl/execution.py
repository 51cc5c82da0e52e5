"""A run on a federation that stands, whatever carries its messages: rounds, models, figures."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from autofgl.atomic import write_bytes
from autofgl.config import Layers, RunConfig
from autofgl.federation.federation import Federation
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.report.report import leave_report
from autofgl.runs.export import save_models
from autofgl.runs.folder import RunFolder
from autofgl.runs.loop import Finished, run_rounds
from autofgl.runs.result import Result, versions, write_result
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome


@dataclass(frozen=True)
class Known:
    """What the coordinator itself knows of the data.

    Attributes:
        clients: Number of clients.
        cut_share: Share of the edges that the cut severs; none if nobody knows the whole graph.
        held: A graph that the server has.
    """

    clients: int
    cut_share: float | None = None
    held: ClientGraph | None = None


def execute(
    config: RunConfig,
    layers: Layers,
    federation: Federation,
    known: Known,
    folder: RunFolder,
    console: Console | None,
) -> Result:
    """Begin the run of a folder, or go on with it, to its end."""
    method = find_method(config.method)(federation, layers.method, config.seed, config.secure)
    method.work_in(folder.path)
    if known.held is not None:
        method.take_server_graph(known.held)
    finished = run_rounds(
        method, folder, budget=config.time_budget, console=console, title=config.method
    )
    outcome = finished.outcome
    info = {"normalize_features": layers.method.normalize_features}
    save_models(folder.path, outcome.models, outcome.spec, info, outcome.specs)
    for name, data in outcome.files.items():
        write_bytes(folder.path / name, data)
    figures = _figures(config, layers, known, method, finished)
    write_result(folder, figures)
    leave_report(folder.path, console)
    return Result(folder.path, figures)


def _figures(
    config: RunConfig,
    layers: Layers,
    known: Known,
    method: Method,
    finished: Finished,
) -> dict[str, Any]:
    """The keys of ``result.json``; other tools rely on these names."""
    outcome: Outcome = finished.outcome
    meter = method.federation.meter
    return {
        "method": config.method,
        "dataset": config.dataset or (list(config.graphs) if config.graphs else "memory"),
        "clients": known.clients,
        "partition": config.partition if config.partitioned else "given",
        "secure": config.secure,
        "seed": config.seed,
        "test_accuracy": outcome.test_accuracy,
        "val_accuracy": outcome.val_accuracy,
        "per_client": outcome.per_client,
        "parameters": outcome.parameters,
        "inference_s": outcome.inference_s,
        "wall_s": finished.wall_s,
        "bytes_up": meter.total("up"),
        "bytes_down": meter.total("down"),
        "bytes_peer": meter.total("peer"),
        "rounds": method.round,
        "stopped_by": finished.stopped_by,
        "architecture": outcome.architecture,
        "hyperparameters": layers.method.model_dump(mode="json"),
        "cut_share": known.cut_share,
        "traffic": meter.state(),
        "versions": versions(),
        **outcome.extra,
    }
