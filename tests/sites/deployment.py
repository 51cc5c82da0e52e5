"""Three sites and a server on this machine, as operators would have them on four."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from autofgl.config import RunConfig, check_config, sort_settings
from autofgl.execution import DataSummary
from autofgl.federation.engines.nvflare.processes import Loopback
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graphs
from autofgl.methods.catalog import METHODS, find_method
from autofgl.runs.folder import Result, RunFolder
from autofgl.secure import MODES
from autofgl.sites.coordinator import Coordinator, Deployment
from autofgl.sites.join import SiteConfig
from autofgl.sites.policy import Policy

#: The policy of owners who have nothing against anything.
OPEN = Policy.of(
    {
        "methods": list(METHODS),
        "secure": list(MODES),
        "min_parties": 1,
        "allow": ["collect_models", "share=all", "sharing=across", "backward", "mode=threshold"],
    }
).to_text()


def prepare(loopback: Loopback, clients: Sequence[ClientGraph], state: Path) -> None:
    """Give every site its graph, its policy and its place for checkpoints."""
    paths = save_graphs(loopback.folder / "graphs", clients)
    names = tuple(client.name for client in clients)
    for client, path in zip(clients, paths, strict=True):
        kit = loopback.kits.sites[client.name]
        policy = kit / "local" / "policy.yaml"
        policy.write_text(OPEN)
        SiteConfig(
            name=client.name, sites=names, graph=str(path), state=str(state), policy=str(policy)
        ).write(kit)


def deployment(loopback: Loopback, **more: Any) -> Deployment:
    kits = loopback.kits
    return Deployment(kits.server, kits.coordinator, list(kits.sites), **more)


def configure(method: str, secure: str = "none", **settings: Any) -> RunConfig:
    return check_config(
        {"method": method, "partition": "given", "secure": secure, "settings": settings}
    )


def coordinate(
    config: RunConfig, place: Deployment, out: Path, console: Console | None = None
) -> Result:
    """Run a configuration at the sites."""
    layers = sort_settings(config, find_method(config.method).Settings)
    if out.exists():
        folder = RunFolder.open(out)
    else:
        folder = RunFolder.create(out, config.model_dump(mode="json"))
    run = out.name
    return Coordinator(config, layers, place, run, folder, console).run(
        DataSummary(len(place.sites))
    )
