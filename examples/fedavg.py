"""One network, trained together under secure sums.

Run it with ``python examples/fedavg.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods fedavg``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "fedavg",
    clients,
    secure="shares",
    model="gcn",
    rounds=10,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"{result.figures['bytes_up'] / 1e6:.1f} MB went to the server, hidden in sums")
print(f"report: {result.folder / 'report.html'}")
