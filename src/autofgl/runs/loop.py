"""The one loop that runs every method, and where the rows of a run go while it runs."""

import hashlib
import json
import os
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autofgl.atomic import write_bytes
from autofgl.errors import Interrupted, PartiesReturned, one_line
from autofgl.federation.checkpoints import CheckpointError
from autofgl.federation.payload import Payload
from autofgl.runs import checkpoint
from autofgl.runs.budget import Budget, Stopwatch
from autofgl.runs.folder import RunFolder, history_lines
from autofgl.runs.tracking import Trackers
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row
from autofgl.tasks.objectives import OBJECTIVES

_JUDGED = tuple(f"val_{name}" for name in OBJECTIVES)
_FIGURES = ("train_loss", "val_loss", *_JUDGED, "test_accuracy")


class Recorder:
    """Takes every row of a run while entered: for its history, its trackers, and a person's screen.

    A terminal shows a bar with the current figures; a pipe, a plain line every tenth of the way;
    without a console nothing is shown. The history keeps its rows up to round ``start``, from which
    the run goes on, and drops later ones.
    """

    def __init__(
        self, folder: RunFolder, start: int, rounds: int, title: str, console: Console | None
    ) -> None:
        self._folder, self._start = folder, start
        self._rounds, self._title, self._console = rounds, title, console
        self._bar: Progress | None = None
        self._open = ExitStack()

    def __enter__(self) -> "Recorder":
        path = self._folder.history
        kept = b"".join(line for line, _ in _rows(path, self._start)) if self._start else b""
        write_bytes(path, kept)
        self._history: BinaryIO = self._open.enter_context(path.open("ab"))
        self._digest, self._size = hashlib.sha256(kept), len(kept)
        self._trackers = self._open.enter_context(closing(Trackers(self._folder.path, self._tell)))
        if self._console is not None and self._console.is_terminal:
            title, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
            columns = (title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), figures)
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(self._title, total=self._rounds, figures="")
            self._open.enter_context(self._bar)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def append(self, row: Row) -> None:
        """Write a row, and show its figures."""
        line = f"{json.dumps(row)}\n".encode()
        self._history.write(line)
        self._history.flush()
        self._digest.update(line)
        self._size += len(line)
        self._trackers.append(row)
        figures = "  ".join(f"{key} {row[key]:.4f}" for key in _FIGURES if row.get(key) is not None)
        if self._bar is not None:
            self._bar.update(self._task, completed=row["round"], figures=figures)
        elif self._console is not None and row["round"] % max(1, self._rounds // 10) == 0:
            shown = f"{self._title} {row['round']}/{self._rounds}  {figures}"
            self._console.print(shown, highlight=False, soft_wrap=True)

    def _tell(self, line: str) -> None:
        if self._console is not None:
            self._console.print(f"notice: {line}", markup=False, highlight=False, soft_wrap=True)

    def history_state(self) -> Payload:
        """What a checkpoint knows the history by, which is on the disk from now on."""
        os.fsync(self._history.fileno())
        return {"bytes": self._size, "digest": self._digest.hexdigest()}


@contextmanager
def _stop_request() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM as a polite request: finish the round, save, then stop.

    The first signal is put on the list; a second one interrupts at once.
    """
    wanted: list[int] = []

    def handle(number: int, _: object) -> None:
        if wanted:
            raise KeyboardInterrupt
        wanted.append(number)

    in_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if in_main else ()
    previous = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield wanted
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class Finished:
    """What the loop leaves for ``result.json``; a run is stopped by rounds, patience, budget or
    interrupt.
    """

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
    watch = _begin(method, folder, console)
    saved = method.round or -1  # round of the newest checkpoint: it is not written twice
    out_of_time = paced = interrupted = False
    recorder = Recorder(folder, method.round, method.rounds, title, console)

    def ends_early(stop: list[int]) -> bool:
        return method.ends_on_interrupt and stop == [signal.SIGINT] and not interrupted

    with recorder, _stop_request() as stop:
        if method.clients.private and not method.round:  # clients keep what their noise comes from
            _save(method, folder, watch, recorder)
        while True:
            if ends_early(stop):
                stop.clear()  # once more stops as everywhere else
                interrupted = out_of_time = True
                method.wrap_up()
                _save(method, folder, watch, recorder)
                _announce_end(console)
            if budget is not None:
                spent = watch.spent(budget)
                changed = method.pace(spent)
                paced = paced or changed
                if not out_of_time and spent >= 1:
                    out_of_time = changed = True
                    method.wrap_up()
                if changed and method.secure != "none":  # sums cannot be made again in another way
                    _save(method, folder, watch, recorder)
            if method.done:
                break
            before = set(method.clients.dropped)
            row = _complete(method.step(), method, watch.wall_s)
            row |= _left_out(method.clients.dropped, before, row, console)
            folder.require()
            recorder.append(row)
            leave = bool(stop) and not ends_early(stop)
            if _save_if_due(method, folder, watch, recorder, leave):
                saved = method.round
        if saved != method.round:
            _save(method, folder, watch, recorder)
        by_itself = "rounds" if method.round >= method.rounds else "patience"
        stopped_by = "budget" if out_of_time or paced else by_itself
        stopped_by = "interrupt" if interrupted else stopped_by
        return Finished(method.finish(), watch.wall_s, stopped_by)


def _announce_end(console: Console | None) -> None:
    if console is not None:
        line = "ending with the best so far; Ctrl-C again saves and stops instead"
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _begin(method: Method, folder: RunFolder, console: Console | None) -> Stopwatch:
    """Resume from the newest checkpoint or set up afresh; the time begins with the rounds."""

    def notice(line: str) -> None:
        if console is not None:
            console.print(f"notice: {line}", markup=False, highlight=False, soft_wrap=True)

    for line in method.notices:
        notice(line)
    if not checkpoint.exists(folder.checkpoints):
        if folder.history.exists():
            notice("there is no checkpoint yet: the run begins again")
        method.connect()
        method.setup()
        return Stopwatch()
    state = checkpoint.load_latest(
        folder.checkpoints,
        method.federation,
        folder.manifest.run,
        redo=method.secure == "none",
        timeout=method.clients.timeout,
        accept=lambda state: _check_history(folder.history, state["history"]),
        notice=notice,
    )
    method.connect()
    method.load_state(state["method"])
    method.catch_up(state["behind"])
    return Stopwatch(state["wall_s"], state["cpu_s"])


def _check_history(path: Path, recorded: Payload) -> None:
    """Refuse a checkpoint whose rounds are no longer in the history as they were written."""
    try:
        with path.open("rb") as stream:
            before = stream.read(recorded["bytes"])
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(before).hexdigest() != recorded["digest"]:
        raise CheckpointError(f"{path} is damaged: it is not the history that was saved")


def _save(method: Method, folder: RunFolder, watch: Stopwatch, recorder: Recorder) -> None:
    folder.require()
    method.before_checkpoint()
    times = {"wall_s": watch.wall_s, "cpu_s": watch.cpu_s}
    state = {"method": method.state(), "round": method.round, **times}
    state["history"] = recorder.history_state()
    run, timeout = folder.manifest.run, method.clients.timeout
    checkpoint.save(folder.checkpoints, method.round, state, method.federation, run, timeout)


def _save_if_due(
    method: Method, folder: RunFolder, watch: Stopwatch, recorder: Recorder, stop: bool
) -> bool:
    """Save after a round that asks for it, and leave the loop if somebody wants that."""
    returned = method.federation.returned
    due = method.milestone or method.round % method.settings.checkpoint_every == 0
    due = due or method.clients.private  # a round that is made again may be another release
    if stop or returned or due:
        _save(method, folder, watch, recorder)
    if stop:
        way = f"resume with: autofgl run --resume {folder.path}"
        raise Interrupted(f"stopped after round {method.round}; {way}")
    if returned:
        raise PartiesReturned(returned)
    return due


def _rows(path: Path, last: int) -> Iterator[tuple[bytes, Row]]:
    """The lines of a history up to a round; none before the first one."""
    return ((line, row) for line, row in history_lines(path) if row["round"] <= last)


def _left_out(
    dropped: Mapping[str, str], before: Collection[str], row: Row, console: Console | None
) -> Row:
    """Whom the round left out and why, for the history; it is also printed."""
    new = {name: reason for name, reason in dropped.items() if name not in before}
    lines = [f"round {row['round']}: going on without {name}: {why}" for name, why in new.items()]
    if "refused" in row:
        lines.append(f"round {row['round']}: {row['refused']}: going on from the round before")
    if "anew" in row:
        lines.append(f"round {row['round']}: the training begins anew, from other initial weights")
    for line in lines:
        if console is None:
            break
        console.print(one_line(line, 400), highlight=False, markup=False, soft_wrap=True)
    return {"dropped": new} if new else {}


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
