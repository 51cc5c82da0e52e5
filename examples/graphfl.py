"""Meta-learn a network that adapts to few labels, also at a client that never trained (GraphFL).

Run it with ``python examples/graphfl.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods graphfl``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="random", seed=0)

result = autofgl.run(
    "graphfl",
    clients,
    new_clients=1,
    inner_steps=3,
    adapt_steps=3,
    rounds=6,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
unadapted = result.figures["unadapted_test_accuracy"]
print(f"before adaptation {unadapted:.3f}")
print(f"report: {result.folder / 'report.html'}")
