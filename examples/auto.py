"""The best model for every client, with a proof.

Run it with ``python examples/auto.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods auto``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "auto",
    clients,
    recipes=4,
    trial_rounds=4,
    tune=2,
    trials=2,
    finalists=2,
    rounds=8,
)

print(result.figures["certificate"]["sentence"])
print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"report: {result.folder / 'report.html'}")
