"""Operators of a server and of sites, each with the command line, on one machine."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from deployment import OPEN

from autofgl.federation.engines.nvflare.processes import free_port, running, stop_kits
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graphs
from autofgl.runs.folder import read_history

#: Hard limit for anything that is waited for.
LIMIT_S = 240.0


class Operators:
    """All machines of a federation. What one does is a command, as in the operator's guide.

    Args:
        folder: Where everything lies.
        clients: The sites' graphs.
        server: Address of the server.
        inside: What to put before a command to run it on a machine, by the machine's name.
    """

    def __init__(
        self,
        folder: Path,
        clients: Sequence[ClientGraph],
        server: str = "localhost",
        inside: Callable[[str], list[str]] = lambda machine: [],
    ) -> None:
        self._inside = inside
        self.folder = folder
        self.kits = folder / "kits"
        self.names = [client.name for client in clients]
        self.graphs = dict(zip(self.names, save_graphs(folder / "graphs", clients), strict=True))
        self._commands: list[subprocess.Popen[str]] = []
        project = {"server": server, "port": free_port(), "sites": self.names}
        (folder / "sites.yaml").write_text(yaml.safe_dump(project))
        self.finish(self.do("provision", "sites.yaml"), 0)
        for name in self.names:
            self.open(name)

    def do(
        self, *words: str, env: Mapping[str, str] | None = None, on: str = "server"
    ) -> "subprocess.Popen[str]":
        """Begin a command of ``autofgl site`` on a machine."""
        program = [sys.executable, "-c", "from autofgl.cli import main; main()", "site", *words]
        process = subprocess.Popen(
            [*self._inside(on), *program],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})},
        )
        self._commands.append(process)
        return process

    def finish(self, process: "subprocess.Popen[str]", code: int) -> str:
        """Wait for a command's end; what it printed."""
        said, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == code, f"exit code {process.returncode}: {said}"
        return said

    def server(self) -> None:
        self.do("server")

    def join(self, name: str, env: Mapping[str, str] | None = None) -> None:
        words = ["--kit", f"kits/sites/{name}", "--graph", str(self.graphs[name])]
        self.do("join", *words, env=env, on=name)

    def open(self, name: str) -> None:
        """The owner of a site allows everything."""
        (self.kit(name) / "policy.yaml").write_text(OPEN)

    def submit(self, name: str, run: Mapping[str, Any]) -> "subprocess.Popen[str]":
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(dict(run)))
        return self.do("submit", f"{name}.yaml", "--out", f"runs/{name}")

    def out(self, name: str) -> Path:
        return self.folder / "runs" / name

    def kit(self, name: str) -> Path:
        return self.kits / "sites" / name

    def wait_for_round(self, name: str, at: int, process: "subprocess.Popen[str]") -> None:
        def reached() -> bool:
            assert process.poll() is None, process.communicate()[0]
            rows = read_history(self.out(name) / "history.jsonl")
            return bool(rows) and rows[-1]["round"] >= at

        wait_until(reached, f"round {at}")

    def job_processes(self, kit: Path) -> list[int]:
        """The processes of a kit that belong to a job."""
        jobs = ("worker_process", "runner_process")
        return [pid for pid in running(kit) if any(job in _command(pid) for job in jobs)]

    def kill(self, kit: Path) -> None:
        """End a machine without a warning, and whoever started it."""
        for pid in running(kit):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not running(kit), "the end of the processes")

    def close(self) -> None:
        for process in self._commands:
            if process.poll() is None:
                process.kill()
            if process.stdout is not None and not process.stdout.closed:
                process.communicate()
        stop_kits(self.kits / "server", *(self.kit(name) for name in self.names))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def wait_until(true: Callable[[], bool], what: str, seconds: float = LIMIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"no {what} in time"
        time.sleep(0.05)


def figures(out: Path) -> dict[str, Any]:
    """The result without times, and without what only whoever has all graphs can know.

    Sites sign their keys with certificates, which are longer than signatures in one process: of the
    operations that carry them only the messages are compared, and the bytes of all others.
    """
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    for op in ("secure", "agree"):
        row = found["traffic"].get(op, {})
        for way in ("up", "down"):
            found[f"bytes_{way}"] -= row.pop(f"bytes_{way}", 0)
    own = ("wall_s", "inference_s", "cut_share", "search_s", "versions")
    return {key: value for key, value in found.items() if key not in own}
