"""The one loop that runs every method, and where the rows of a run go while it runs."""

import json
import signal
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autofgl.atomic import write_text
from autofgl.errors import Interrupted, PartiesReturned, one_line
from autofgl.runs import checkpoint
from autofgl.runs.budget import Budget, Stopwatch
from autofgl.runs.folder import RunFolder, read_history
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome, Row

_FIGURES = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


class Recorder:
    """Takes every row of a run while entered: for its history, TensorBoard, and a person's screen.

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
        self._events: EventLog | None = None
        self._open = ExitStack()

    def __enter__(self) -> "Recorder":
        path = self._folder.history
        rows = [row for row in read_history(path) if row["round"] <= self._start]
        write_text(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        self._history: TextIO = self._open.enter_context(path.open("a"))
        with suppress(ModuleNotFoundError):
            self._events = self._open.enter_context(closing(EventLog(self._folder.path)))
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
        self._history.write(f"{json.dumps(row)}\n")
        self._history.flush()
        if self._events is not None:
            self._events.append(row)
        figures = "  ".join(f"{key} {row[key]:.4f}" for key in _FIGURES if row.get(key) is not None)
        if self._bar is not None:
            self._bar.update(self._task, completed=row["round"], figures=figures)
        elif self._console is not None and row["round"] % max(1, self._rounds // 10) == 0:
            line = f"{self._title} {row['round']}/{self._rounds}  {figures}"
            self._console.print(line, highlight=False, soft_wrap=True)


class EventLog:
    """Writes every number of a row for TensorBoard (``pip install 'autofgl[tensorboard]'``)."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer: Any = EventFileWriter(str(folder))
        self.close = self._writer.close

    def append(self, row: Row) -> None:
        """Add a row."""
        values = [
            self._summary.Value(tag=key, simple_value=float(value))
            for key, value in row.items()
            if isinstance(value, int | float) and key != "round"
        ]
        summary = self._summary(value=values)
        event = self._event(wall_time=time.time(), step=row["round"], summary=summary)
        self._writer.add_event(event)


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
    with recorder, _stop_request() as stop:
        while True:
            if budget is not None:
                spent = watch.spent(budget)
                method.pace(spent)
                if not out_of_time and spent >= 1:
                    out_of_time = True
                    method.wrap_up()
            if method.done:
                break
            known = set(method.clients.dropped)
            row = _complete(method.step(), method, watch.wall_s)
            row |= _news(method.clients.dropped, known, row, console)
            folder.require()
            recorder.append(row)
            _save_if_due(method, folder, watch, bool(stop))
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


def _save_if_due(method: Method, folder: RunFolder, watch: Stopwatch, stop: bool) -> None:
    """Save after a round that asks for it, and leave the loop if somebody wants that."""
    returned = method.federation.returned
    due = method.milestone or method.round % method.settings.checkpoint_every == 0
    if stop or returned or due:
        _save(method, folder, watch)
    if stop:
        way = f"resume with: autofgl run --resume {folder.path}"
        raise Interrupted(f"stopped after round {method.round}; {way}")
    if returned:
        raise PartiesReturned(returned)


def _news(
    dropped: Mapping[str, str], known: Collection[str], row: Row, console: Console | None
) -> Row:
    """Whom the round left out and why, for the history; it is also told."""
    new = {name: reason for name, reason in dropped.items() if name not in known}
    lines = [f"round {row['round']}: going on without {name}: {why}" for name, why in new.items()]
    if "refused" in row:
        lines.append(f"round {row['round']}: {row['refused']}: going on from the round before")
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
