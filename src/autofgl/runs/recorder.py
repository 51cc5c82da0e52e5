"""Where the rows of a run go while it runs: its history, TensorBoard, and a person's screen."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from autofgl.atomic import write_text
from autofgl.runs.folder import RunFolder, read_history

_FIGURES = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")


class Recorder:
    """Takes every row of a run, while entered.

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

    def __enter__(self) -> "Recorder":
        path = self._folder.history
        rows = [row for row in read_history(path) if row["round"] <= self._start]
        write_text(path, "".join(f"{json.dumps(row)}\n" for row in rows))
        self._history: TextIO = path.open("a")
        with suppress(ModuleNotFoundError):
            self._events = EventLog(self._folder.path)
        if self._console is not None and self._console.is_terminal:
            title, figures = TextColumn("{task.description}"), TextColumn("{task.fields[figures]}")
            columns = (title, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), figures)
            self._bar = Progress(*columns, console=self._console)
            self._task = self._bar.add_task(self._title, total=self._rounds, figures="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._history.close()
        if self._events is not None:
            self._events.close()

    def append(self, row: dict[str, Any]) -> None:
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
    """Writes every number of a row as a TensorBoard scalar.

    Raises:
        ModuleNotFoundError: The extra is missing (``pip install 'autofgl[tensorboard]'``).
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer: Any = EventFileWriter(str(folder))
        self.close = self._writer.close

    def append(self, row: dict[str, Any]) -> None:
        """Add a row."""
        values = [
            self._summary.Value(tag=key, simple_value=float(value))
            for key, value in row.items()
            if isinstance(value, int | float) and key != "round"
        ]
        summary = self._summary(value=values)
        event = self._event(wall_time=time.time(), step=row["round"], summary=summary)
        self._writer.add_event(event)
