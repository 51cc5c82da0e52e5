"""Search an architecture by federated evolution (FL-AGCNS), then train it.

Run it with ``python examples/fl_agcns.py``. Graph and settings are small, so that it
takes a moment; for real work leave the settings out, or see ``autofgl methods fl-agcns``.
"""

import autofgl
from autofgl.graphs.catalog import DataSettings

graph = autofgl.load("synthetic", seed=0, settings=DataSettings(nodes=200, classes=3, features=60))
clients = autofgl.partition(graph, clients=3, method="metis", seed=0)

result = autofgl.run(
    "fl-agcns",
    clients,
    secure="shares",
    layers=2,
    population=8,
    codes_per_step=4,
    weight_steps=1,
    generations=4,
    warmup=1,
    trials=3,
    trial_rounds=3,
    finalists=1,
    rounds=10,
)

print(f"test accuracy {result.test_accuracy:.3f}, validation {result.val_accuracy:.3f}")
print(f"best architecture: {result.figures['architecture']}")
print(f"report: {result.folder / 'report.html'}")
