"""The one loop that runs every method."""

import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rich.console import Console

from autofgl.errors import Interrupted, PartiesReturned
from autofgl.runs import checkpoint
from autofgl.runs.budget import Budget, Stopwatch
from autofgl.runs.folder import RunFolder
from autofgl.runs.recorder import Recorder
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row


class StopRequest:
    """Ctrl-C and SIGTERM as a polite request: finish the round, save, then stop.

    While entered, the first signal sets :attr:`wanted`; a second one interrupts at once.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True


@dataclass(frozen=True)
class Finished:
    """What the loop leaves for ``result.json``; a run is stopped by rounds, patience or budget."""

    outcome: Outcome
    wall_s: float
    stopped_by: str


def run_rounds(
    method: Method,
    folder: RunFolder,
    *,
    budget: Budget | None,
    console: Console | None,
    title: str,
) -> Finished:
    """Set the method up or resume it, make rounds until it is done, and let it finish.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; everything is saved.
        PartiesReturned: Everything is saved; begin anew with all parties.
        RunFolderError: The folder was deleted meanwhile.
    """
    watch = _begin(method, folder)
    out_of_time = False
    recorder = Recorder(folder, method.round, method.rounds, title, console)
    with recorder, StopRequest() as stop:
        while True:
            if budget is not None:
                spent = watch.spent(budget)
                method.pace(spent)
                if not out_of_time and spent >= 1:
                    out_of_time = True
                    method.wrap_up()
            if method.done:
                break
            row = _complete(method.step(), method, watch.wall_s)
            folder.require()
            recorder.append(row)
            _save_if_due(method, folder, watch, stop)
        _save(method, folder, watch)
        by_itself = "rounds" if method.round >= method.rounds else "patience"
        stopped_by = "budget" if out_of_time else by_itself
        return Finished(method.finish(), watch.wall_s, stopped_by)


def _begin(method: Method, folder: RunFolder) -> Stopwatch:
    """Resume from the newest checkpoint or set up afresh; the time begins with the rounds."""
    if not checkpoint.exists(folder.checkpoints):
        method.connect()
        method.setup()
        return Stopwatch()
    state = checkpoint.load_latest(folder.checkpoints, method.federation)
    method.connect()
    method.load_state(state["method"])
    return Stopwatch(state["wall_s"], state["cpu_s"])


def _save(method: Method, folder: RunFolder, watch: Stopwatch) -> None:
    folder.require()
    method.before_checkpoint()
    times = {"wall_s": watch.wall_s, "cpu_s": watch.cpu_s}
    state = {"method": method.state(), "round": method.round, **times}
    checkpoint.save(folder.checkpoints, method.round, state, method.federation)


def _save_if_due(method: Method, folder: RunFolder, watch: Stopwatch, stop: StopRequest) -> None:
    """Save after a round that asks for it, and leave the loop if somebody wants that."""
    returned = method.federation.returned
    due = method.milestone or method.round % method.settings.checkpoint_every == 0
    if stop.wanted or returned or due:
        _save(method, folder, watch)
    if stop.wanted:
        way = f"go on with: autofgl run --resume {folder.path}"
        raise Interrupted(f"stopped after round {method.round}; {way}")
    if returned:
        raise PartiesReturned(returned)


def _complete(row: Row, method: Method, wall_s: float) -> Row:
    """The contract's columns first, then the method's own."""
    meter = method.federation.meter
    first: Row = {"round": row["round"], "wall_s": round(wall_s, 6)}
    first |= {"bytes_up": meter.total("up"), "bytes_down": meter.total("down")}
    if "secure" in meter.ops:
        secure = meter.ops["secure"]
        first["bytes_secure"] = secure.bytes_up + secure.bytes_down
    if meter.total("peer"):
        first["bytes_peer"] = meter.total("peer")
    return {**first, **row}
