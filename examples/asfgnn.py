"""SFGNN with hyperparameters tuned for all clients together (ASFGNN).

Run it with ``python examples/asfgnn.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods asfgnn``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="labels", seed=0)

result = autofgl.run(
    "asfgnn",
    clients,
    trials=3,
    trial_rounds=3,
    startup=2,
    rounds=6,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"report: {result.folder / 'report.html'}")
