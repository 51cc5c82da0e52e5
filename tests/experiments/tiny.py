"""A table of runs that take a moment, and runs that are only made up."""

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from autofgl.experiments.plan import Options, Published, Setting, Table, Variant
from autofgl.experiments.runner import run_experiment
from autofgl.experiments.tables import TablePages

FAST: dict[str, Any] = {"nodes": 120, "rounds": 3, "hidden": 8}


def make_table(**changed: Any) -> Table:
    """Two cuts of a synthetic graph, a "search" that has a budget, and a fixed network."""
    parts: dict[str, Any] = {
        "name": "tiny",
        "title": "A tiny table",
        "source": "Nobody, Table 0",
        "settings": (
            Setting("two", "Two", "synthetic", clients=2),
            Setting("three", "Three", "synthetic", clients=3, partition="random"),
        ),
        "variants": (
            Variant("quick", "Quick", "fedavg", FAST, seeds=1, budgeted=True),
            Variant("gcn", "GCN", "fedavg", {**FAST, "model": "gcn"}, seeds=2, partition="metis"),
        ),
        "paper": {("gcn", "two"): Published(81.3, 0.102)},
        "notes": ("Nothing here is real.",),
    }
    return Table(**{**parts, **changed})


def run(table: Table, out: Path, **options: Any) -> str:
    """Run a table and return what is said."""
    said = io.StringIO()
    run_experiment(TablePages(table, Options(out, **options)), Console(file=said, width=80))
    return said.getvalue()


def cells(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The cells of ``table.json`` by row and column."""
    whole = json.loads((out / "table.json").read_text())
    return {(cell["row"], cell["column"]): cell for cell in whole["cells"]}
