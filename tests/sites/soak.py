"""A long disturbed run at three sites: random kills, standstills and a network that fails.

Usage: python tests/sites/soak.py [MINUTES] [--secure shares] [--rounds 400] [--seed 0]

Runs follow each other until the time is over. In each of them something happens every few rounds:
a site is killed and started again, a site stands still, the network of a site is cut, the server or
the coordinator is killed. Every third time the next thing happens before the run has recovered. A
busy machine takes long to start processes anew, so it is rounds that are waited for, not seconds: a
run that is struck faster than it recovers gets nowhere, and that says nothing.

A run counts as right if it ends with the weights of an undisturbed run in one process, as ended if
it stops with one line that says why. Anything else is a failure, and so is a run without a new
round for a long time. At the end the memory of the processes is compared between the first and the
last third of the time.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from network import Network, possible
from operators import Operators

import autofgl
from autofgl.federation.engines.nvflare.processes import running
from autofgl.runs.folder import read_history

#: Longest time without a new round, disturbances included.
STILL_S = 600.0
#: Processes of a job live as long as it does: their memory counts from this age on, in seconds.
SETTLED_S = 30.0


class Soak:
    """Runs at sites, and everything that happens to them."""

    def __init__(self, folder: Path, secure: str, rounds: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._clients = autofgl.partition(autofgl.load("synthetic", seed=1), clients=3, seed=0)
        settings = {"rounds": rounds, "checkpoint_every": 20, "hidden": 8}
        self._run = {"method": "fedavg", "secure": secure, "settings": settings}
        self._calm = folder / "calm"
        autofgl.run("fedavg", self._clients, secure=secure, out=self._calm, **settings)
        names = [client.name for client in self._clients]
        self._network = Network(["server", *names], delay=0.005, loss=0.005) if possible() else None
        if self._network is None:
            self.operators = Operators(folder, self._clients)
        else:
            address = self._network.machines["server"]
            self.operators = Operators(folder, self._clients, address, self._network.inside)
        self.operators.server()
        for name in names:
            self.operators.join(name)
        self.events: dict[str, int] = defaultdict(int)
        self.memory: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._coordinator: subprocess.Popen[str] | None = None

    def close(self) -> None:
        self.operators.close()
        if self._network is not None:
            self._network.close()

    def one_run(self, name: str) -> str:
        """A run with disturbances: ``right``, ``ended`` and why, or ``wrong`` and what."""
        self._coordinator = self.operators.submit(name, self._run)
        last, moved_at, strike_at, strike_time = 0, time.monotonic(), self._pause(0), 0.0
        while self._coordinator.poll() is None:
            time.sleep(1)
            self._note_memory()
            made = self._made(name)
            if made != last:
                last, moved_at = made, time.monotonic()
            if time.monotonic() - moved_at > STILL_S:
                self._coordinator.kill()
                said = self._coordinator.communicate()[0]
                return f"wrong: no new round for {STILL_S:.0f} s\n{said[-2000:]}"
            if made >= strike_at or (strike_time and time.monotonic() > strike_time):
                self._disturb(name)
                strike_at = self._pause(self._made(name))
                again = self._random.random() < 1 / 3
                strike_time = time.monotonic() + self._random.uniform(2, 20) if again else 0.0
        said, code = self._coordinator.communicate()[0], self._coordinator.returncode
        if code != 0:
            clean = code in (1, 2, 3) and "Traceback" not in said
            last = said.strip().splitlines()[-1:] or ["nothing"]
            return f"{'ended' if clean else 'wrong'}: exit code {code}: {last[0]}"
        ours, theirs = (
            (out / "model.safetensors").read_bytes()
            for out in (self.operators.out(name), self._calm)
        )
        rows = read_history(self.operators.out(name) / "history.jsonl")
        whole = [row["round"] for row in rows] == list(range(1, len(rows) + 1))
        return "right" if ours == theirs and whole else "wrong: other weights or rounds"

    def _pause(self, made: int) -> int:
        """The round before which something happens next."""
        return made + self._random.randint(5, 60)

    def _made(self, name: str) -> int:
        """The last round of a run; rounds that are made again count when they are new."""
        try:
            return (self.operators.out(name) / "history.jsonl").read_bytes().count(b"\n")
        except OSError:
            return 0

    def _disturb(self, name: str) -> None:
        site = self._random.choice(self.operators.names)
        choices: dict[str, Callable[[], None]] = {
            "site killed": lambda: self._kill_site(site),
            "site stands still": lambda: self._stand_still(site),
            "server killed": self._kill_server,
            "coordinator killed": lambda: self._kill_coordinator(name),
        }
        if self._network is not None:
            choices["network cut"] = lambda: self._cut(site)
        weights = [4, 3, 1, 2, 4][: len(choices)]
        event = self._random.choices(list(choices), weights)[0]
        self.events[event] += 1
        who = site if "site" in event or "cut" in event else "all"
        print(f"    round {self._made(name)}: {event} ({who})", flush=True)
        choices[event]()

    def _kill_site(self, site: str) -> None:
        self.operators.kill(self.operators.kit(site))
        time.sleep(self._random.uniform(0, 5))
        self.operators.join(site)

    def _stand_still(self, site: str) -> None:
        pids = self.operators.job_processes(self.operators.kit(site))
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            time.sleep(self._random.uniform(1, 8) if number == signal.SIGSTOP else 0)

    def _kill_server(self) -> None:
        self.operators.kill(self.operators.kits / "server")
        time.sleep(self._random.uniform(0, 3))
        self.operators.server()

    def _kill_coordinator(self, name: str) -> None:
        assert self._coordinator is not None
        self._coordinator.kill()
        self._coordinator.communicate()
        if not (self.operators.out(name) / "config.yaml").exists():
            self._coordinator = self.operators.submit(name, self._run)
        else:
            self._coordinator = self.operators.do("submit", "--resume", f"runs/{name}")

    def _cut(self, site: str) -> None:
        assert self._network is not None
        self._network.cut.add(self._network.machines[site])
        time.sleep(self._random.uniform(2, 12))
        self._network.cut.clear()

    def _note_memory(self) -> None:
        """Resident memory of the server's and the sites' own processes, and of the largest
        process of a job there, in KiB.
        """
        kits = {"server": self.operators.kits / "server"}
        kits |= {name: self.operators.kit(name) for name in self.operators.names}
        for name, kit in kits.items():
            jobs = set(self.operators.job_processes(kit))
            parts = {name: set(running(kit)) - jobs, f"{name}'s job": jobs}
            for part, pids in parts.items():
                sizes = [_resident(pid) for pid in pids if _age(pid) > SETTLED_S]
                if sizes:
                    self.memory[part].append((time.monotonic(), max(sizes)))
        coordinator = self._coordinator
        if coordinator is not None and _age(coordinator.pid) > SETTLED_S:
            self.memory["coordinator"].append((time.monotonic(), _resident(coordinator.pid)))


def _resident(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def _age(pid: int) -> float:
    """Seconds since a process began."""
    try:
        began = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
        now = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return 0.0
    return now - began / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print a line for each run, then counts and memory; exit code 1 if a run went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("minutes", type=float, nargs="?", default=30.0)
    parser.add_argument("--secure", default="shares")
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.secure, options.rounds, options.seed)
        try:
            begun = time.monotonic()
            while time.monotonic() - begun < 60 * options.minutes:
                outcomes.append(soak.one_run(f"run-{len(outcomes)}"))
                minutes = (time.monotonic() - begun) / 60
                print(f"{minutes:5.1f} min  run {len(outcomes)}: {outcomes[-1]}", flush=True)
            third = (time.monotonic() - begun) / 3
        finally:
            soak.close()
    counts = {
        kind: sum(o.startswith(kind) for o in outcomes) for kind in ("right", "ended", "wrong")
    }
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print(", ".join(f"{kind}: {count}" for kind, count in sorted(soak.events.items())))
    for name, sizes in soak.memory.items():
        early = [size for at, size in sizes if at - begun < third]
        late = [size for at, size in sizes if at - begun > 2 * third]
        if early and late:
            first, last = statistics.median(early), statistics.median(late)
            print(
                f"{name}: {first / 1024:.0f} MiB in the first third, {last / 1024:.0f} in the last,"
                f" at most {max(size for _, size in sizes) / 1024:.0f}"
            )
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
