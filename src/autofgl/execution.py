"""A run on a federation that stands, whatever carries its messages: rounds, models, figures."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from autofgl.atomic import write_bytes
from autofgl.config import Layers, RunConfig
from autofgl.federation import Federation
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.report.report import leave_report
from autofgl.runs.export import save_models
from autofgl.runs.folder import Result, RunFolder, versions
from autofgl.runs.loop import Finished, run_rounds
from autofgl.runtime.method import Method


def _share(settings: Any) -> str:
    """Whose rows networks take in from other clients; empty if they take in none."""
    share = str(getattr(settings, "share", "none"))
    across = getattr(settings, "sharing", "across") == "across" and share != "none"
    return share if across else ""


@dataclass(frozen=True)
class DataSummary:
    """What the coordinator itself knows of the data; no cut if nobody knows the whole graph."""

    clients: int
    cut_share: float | None = None
    server_graph: ClientGraph | None = None
    weighted: bool = False


def execute(
    config: RunConfig,
    layers: Layers,
    federation: Federation,
    data: DataSummary,
    folder: RunFolder,
    console: Console | None,
) -> Result:
    """Begin the run of a folder, or go on with it, to its end."""
    method = find_method(config.method)(federation, layers.method, config.seed, config.secure)
    with folder.guarded():
        folder.seal()
        method.work_in(folder.path)
        if data.server_graph is not None:
            method.take_server_graph(data.server_graph)
        finished = run_rounds(
            method, folder, budget=config.time_budget, console=console, title=config.title
        )
        folder.require()
        outcome = finished.outcome
        scaling = layers.method.normalize_features
        info = {"normalize_features": scaling if outcome.features is None else outcome.features}
        info |= {"scalings": outcome.scalings} if outcome.scalings else {}
        info |= {"ensembles": outcome.ensembles} if outcome.ensembles else {}
        if share := _share(layers.method):
            info["share"] = share
        if outcome.across:
            info["shares"] = dict.fromkeys(outcome.across, layers.method.share)
        if layers.data.directed:
            info["directed"] = True
        if data.weighted:
            info["weighted"] = True
        save_models(folder.path, outcome.models, outcome.spec, info, outcome.specs)
        for name, content in outcome.files.items():
            write_bytes(folder.path / name, content)
        figures = _figures(config, layers, data, method, finished)
        if method.clients.private:
            figures["dp"] = method.clients.privacy()
        folder.write_result(figures)
        folder.seal(
            "result.json", "model.json", "model.safetensors", "history.jsonl", *outcome.files
        )
    leave_report(folder.path, console)
    return Result(folder.path, figures)


def _figures(
    config: RunConfig, layers: Layers, data: DataSummary, method: Method, finished: Finished
) -> dict[str, Any]:
    """The keys of ``result.json``; other tools rely on these names."""
    outcome = finished.outcome
    meter = method.federation.meter
    return {
        "method": config.method,
        "dataset": config.dataset or (list(config.graphs) if config.graphs else "memory"),
        "clients": data.clients,
        "partition": config.partition if config.partitioned else "given",
        "secure": config.secure,
        "seed": config.seed,
        "test_accuracy": outcome.test_accuracy,
        "val_accuracy": outcome.val_accuracy,
        "objective": outcome.objective,
        "metrics": outcome.metrics,
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
        "cut_share": data.cut_share,
        "traffic": meter.state(),
        "versions": versions(),
        **({"dropped": method.clients.dropped} if method.clients.dropped else {}),
        **outcome.extra,
    }
