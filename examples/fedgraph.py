"""Graph convolution across clients, with a sampling policy that is learned (FedGraph).

Run it with ``python examples/fedgraph.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods fedgraph``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="random", seed=0)

result = autofgl.run(
    "fedgraph",
    clients,
    sampler="ddpg",
    profile_rounds=3,
    episodes=2,
    episode_rounds=3,
    rounds=6,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
peer = result.figures["bytes_peer"]
print(f"{peer / 1e3:.0f} kB went between clients, sealed")
print(f"report: {result.folder / 'report.html'}")
