"""Search an architecture by its gradient, in a continuous relaxation.

Run it with ``python examples/fl_darts.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods fl-darts``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "fl-darts",
    clients,
    layers=2,
    generations=3,
    weight_steps=1,
    rounds=10,
    trials=3,
    trial_rounds=5,
    tune=3,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"best architecture: {result.figures['architecture']}")
print(f"report: {result.folder / 'report.html'}")
