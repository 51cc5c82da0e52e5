"""Every client alone: what could be reached without the others.

Run it with ``python examples/separate.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods separate``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "separate",
    clients,
    rounds=10,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
for client in result.figures["per_client"]:
    print(f"{client['name']}: test accuracy {client['test_accuracy']:.3f}")
print(f"report: {result.folder / 'report.html'}")
