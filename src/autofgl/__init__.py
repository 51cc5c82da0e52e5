"""Find and train graph neural networks on graphs that may not be pooled."""

import importlib
from typing import TYPE_CHECKING, Any

from autofgl.version import __version__ as __version__

if TYPE_CHECKING:
    from autofgl.api import auto, resume, run
    from autofgl.errors import AutoFGLError, UserError
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.graphs.datasets import load
    from autofgl.graphs.files import load_graph, load_graphs, save_graph, save_graphs
    from autofgl.graphs.objects import as_clients, as_graph
    from autofgl.graphs.partition import partition
    from autofgl.matching.server import match_files
    from autofgl.runs.export import load_model, predict
    from autofgl.runs.folder import Result
    from autofgl.runtime.method import Method
    from autofgl.tables.intake import import_tables


__all__ = [
    "AutoFGLError",
    "ClientGraph",
    "Method",
    "Result",
    "UserError",
    "as_clients",
    "as_graph",
    "auto",
    "import_tables",
    "load",
    "load_graph",
    "load_graphs",
    "load_model",
    "match_files",
    "partition",
    "predict",
    "resume",
    "run",
    "save_graph",
    "save_graphs",
]

_HOMES = {
    "autofgl.api": ("auto", "resume", "run"),
    "autofgl.errors": ("AutoFGLError", "UserError"),
    "autofgl.graphs.client_graph": ("ClientGraph",),
    "autofgl.graphs.datasets": ("load",),
    "autofgl.graphs.files": ("load_graph", "load_graphs", "save_graph", "save_graphs"),
    "autofgl.graphs.objects": ("as_clients", "as_graph"),
    "autofgl.graphs.partition": ("partition",),
    "autofgl.matching.server": ("match_files",),
    "autofgl.runtime.method": ("Method",),
    "autofgl.runs.export": ("load_model", "predict"),
    "autofgl.runs.folder": ("Result",),
    "autofgl.tables.intake": ("import_tables",),
}


def __getattr__(name: str) -> Any:
    """Import public names at first use, so that ``autofgl --help`` need not wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'autofgl' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names too, which are not imported yet: completion in a notebook shows them."""
    return sorted({*globals(), *__all__})
