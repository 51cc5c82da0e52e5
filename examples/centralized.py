"""Everything pooled: what could be reached without any privacy.

Run it with ``python examples/centralized.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods centralized``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "centralized",
    clients,
    rounds=10,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
parameters = result.figures["parameters"]
print(f"one network of {parameters} parameters")
print(f"report: {result.folder / 'report.html'}")
