"""Find and train graph neural networks on graphs that may not be pooled."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autofgl.api import resume, run
    from autofgl.errors import AutoFGLError, UserError
    from autofgl.graphs.client_graph import ClientGraph
    from autofgl.graphs.datasets import load
    from autofgl.graphs.files import load_graph, load_graphs, save_graph, save_graphs
    from autofgl.graphs.partition import partition
    from autofgl.runs.export import load_model
    from autofgl.runs.predict import predict
    from autofgl.runs.result import Result

__version__ = "0.1.0"

_HOMES = {
    "AutoFGLError": "errors",
    "ClientGraph": "graphs.client_graph",
    "Result": "runs.result",
    "UserError": "errors",
    "load": "graphs.datasets",
    "load_graph": "graphs.files",
    "load_graphs": "graphs.files",
    "load_model": "runs.export",
    "partition": "graphs.partition",
    "predict": "runs.predict",
    "resume": "api",
    "run": "api",
    "save_graph": "graphs.files",
    "save_graphs": "graphs.files",
}

__all__ = [
    "AutoFGLError",
    "ClientGraph",
    "Result",
    "UserError",
    "load",
    "load_graph",
    "load_graphs",
    "load_model",
    "partition",
    "predict",
    "resume",
    "run",
    "save_graph",
    "save_graphs",
]


def __getattr__(name: str) -> Any:
    """Import public names at first use, so that ``autofgl --help`` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'autofgl' has no attribute '{name}'")
    return getattr(importlib.import_module(f"autofgl.{_HOMES[name]}"), name)
