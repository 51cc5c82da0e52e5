"""``--engine nvflare``: every client a site of its own, all of them on this machine."""

from collections.abc import Sequence

from rich.console import Console

from autofgl.config import Layers, RunConfig
from autofgl.execution import Known
from autofgl.federation.engines.loopback import Loopback
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graphs
from autofgl.methods.catalog import find_method
from autofgl.runs.folder import RunFolder
from autofgl.runs.result import Result
from autofgl.sites.coordinator import Coordinator, Venue
from autofgl.sites.local import SiteConfig


def run_as_sites(
    config: RunConfig,
    layers: Layers,
    clients: Sequence[ClientGraph],
    known: Known,
    folder: RunFolder,
    console: Console | None,
) -> Result:
    """Start a server and a site for each client, run, and end them all.

    Keys, certificates and the clients' graph files are in a temporary folder that is deleted at the
    end. Checkpoints are where the in-process engine puts them.
    """
    graphs = find_method(config.method).arrange(clients)
    names = [graph.name for graph in graphs]
    with Loopback(names) as loopback:
        paths = save_graphs(loopback.folder / "graphs", graphs)
        for name, path in zip(names, paths, strict=True):
            kit = loopback.kits.sites[name]
            SiteConfig(
                name=name,
                graph=str(path),
                state=str(folder.path.absolute()),
                policy=str(kit / "local" / "policy.yaml"),
            ).write(kit)
        loopback.start()
        venue = Venue(loopback.kits.server, loopback.kits.coordinator, names, see_out=False)
        run = folder.checkpoints.name
        return Coordinator(config, layers, venue, run, folder, console).run(known)
