"""Counts what a reader has to walk through: functions and modules of ours that one round enters.

Usage: python tools/walk.py [--list]     with --list, every function by module
"""

import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import FrameType
from typing import Any

import autofgl
from autofgl.federation.engines.inprocess import InProcess
from autofgl.methods.catalog import find_method

SOURCE = Path(autofgl.__file__).parent
SEARCH = {"population": 6, "generations": 3, "warmup": 0, "layers": 2, "trials": 0}


class Walk:
    """The functions that are entered while it is ``open``, in threads begun since it was made."""

    def __init__(self) -> None:
        self.entered: dict[str, set[str]] = defaultdict(set)
        self.open = False
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        ours = self.open and event == "call" and code.co_filename.startswith(str(SOURCE))
        if ours and "<" not in code.co_name:
            module = str(Path(code.co_filename).relative_to(SOURCE))
            self.entered[module].add(code.co_qualname)


def walk_of(name: str, secure: str, **settings: Any) -> Walk:
    """What one round of a method enters, after a first one that fills the caches."""
    graph = autofgl.load("cora")
    clients = autofgl.partition(graph, clients=3, seed=0)
    method_class = find_method(name)
    checked = method_class.Settings(**settings)
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        parties = {graph.name: method_class.party(graph, checked, 0, secure) for graph in clients}
        engine = InProcess(parties, folder=Path(folder), workers=1)
        method = method_class(engine, checked, 0, secure)
        method.connect()
        method.setup()
        method.step()
        walk.open = True
        method.step()
        walk.open = False
        engine.close()
    return walk


def main() -> None:
    """Print a line for each walk."""
    walks = {
        "fedavg round": walk_of("fedavg", "none"),
        "fl-agcns generation, ckks": walk_of("fl-agcns", "ckks", **SEARCH),
        "fedgraph iteration": walk_of("fedgraph", "none"),
    }
    for title, walk in walks.items():
        functions = sum(map(len, walk.entered.values()))
        print(f"{title}: {functions} functions in {len(walk.entered)} modules")
        if "--list" in sys.argv:
            for module, names in sorted(walk.entered.items()):
                print(f"    {module}: {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
