"""Own message passing for each client, a federated discriminator (SFGNN).

Run it with ``python examples/sfgnn.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods sfgnn``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="labels", seed=0)

result = autofgl.run(
    "sfgnn",
    clients,
    rounds=10,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"report: {result.folder / 'report.html'}")
