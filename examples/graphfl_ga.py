"""Clients that configure themselves by a genetic algorithm (GraphFL with GA).

Run it with ``python examples/graphfl_ga.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods graphfl-ga``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="random", seed=0)

result = autofgl.run(
    "graphfl-ga",
    clients,
    population=4,
    iterations=1,
    rounds=3,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"report: {result.folder / 'report.html'}")
