"""Trackers: where the rows of a run go besides its history.

A tracker is a class that is made with the run folder, takes every row, and is closed. TensorBoard's
is used wherever TensorBoard is installed. ``AUTOFGL_TRACK`` names others, separated by commas:
``mlflow``, ``file.py:Class``, ``module:Class``, or a plug-in of the entry points
``autofgl.trackers``. They are for whoever watches a run: one that fails is left out, and the run
goes on.
"""

import math
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from autofgl.errors import UserError, one_line, unknown_name
from autofgl.plugins import find, is_known
from autofgl.runs.folder import RunFolder
from autofgl.runtime.outcome import Row

#: Names the trackers that are wanted besides TensorBoard's.
VARIABLE = "AUTOFGL_TRACK"
_EXPERIMENT, _RUN_TAG = "autofgl", "autofgl.run"
_LONGEST_VALUE = 500


class Tracker(Protocol):
    """Made with the run folder, which has the configuration; a resumed run makes it anew."""

    def append(self, row: Row) -> None:
        """Take a row: ``round``, figures, and what else the method says of the round."""

    def close(self) -> None:
        """The run has ended, or was stopped."""


class EventLog:
    """Writes every number of a row for TensorBoard (``pip install 'autofgl[tensorboard]'``).

    TensorBoard's own writer has a thread, whose errors nobody could catch.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        stamp = f"{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        stream = (folder / f"events.out.tfevents.{stamp}").open("wb")
        self._writer: Any = RecordWriter(stream)
        self.close = stream.close
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def append(self, row: Row) -> None:
        """See :class:`Tracker`."""
        values = [
            self._summary.Value(tag=key, simple_value=value)
            for key, value in numbers_of(row).items()
        ]
        summary = self._summary(value=values)
        self._write(self._event(wall_time=time.time(), step=row["round"], summary=summary))

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()


class MLflowRun:
    """A run of the experiment ``autofgl`` in MLflow (``pip install 'autofgl[mlflow]'``).

    It is where MLflow's own ``MLFLOW_TRACKING_URI`` says, else where MLflow puts it. Settings are
    its parameters, figures its metrics by round; a resumed run goes on in it.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise UserError("tracking needs MLflow: pip install 'autofgl[mlflow]'") from error
        run = RunFolder(folder)
        self._client: Any = MlflowClient()
        known: Any = self._client.get_experiment_by_name(_EXPERIMENT)
        create = self._client.create_experiment
        experiment = create(_EXPERIMENT) if known is None else known.experiment_id
        tag = run.manifest.run
        found = self._client.search_runs([experiment], f"tags.`{_RUN_TAG}` = '{tag}'")
        if found:
            self._run = found[0].info.run_id
            self._client.update_run(self._run, status="RUNNING")
            return
        name = folder.absolute().name
        self._run = self._client.create_run(experiment, run_name=name, tags={_RUN_TAG: tag})
        self._run = self._run.info.run_id
        config = run.read_config()
        settings = config.pop("settings", None) or {}
        for key, value in {**config, **settings}.items():
            if value not in (None, "", []):
                self._client.log_param(self._run, key, str(value)[:_LONGEST_VALUE])

    def append(self, row: Row) -> None:
        """See :class:`Tracker`."""
        from mlflow.entities import Metric

        now, step = time.time_ns() // 1_000_000, row["round"]
        metrics = [Metric(key, value, now, step) for key, value in numbers_of(row).items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """See :class:`Tracker`."""
        self._client.set_terminated(self._run)


TRACKERS: dict[str, Callable[[Path], Tracker]] = {"tensorboard": EventLog, "mlflow": MLflowRun}


class Trackers:
    """All trackers of a run. What fails of those that ``AUTOFGL_TRACK`` names is told and left out.

    TensorBoard's events are files of the run folder: a disk that is full ends the run.
    """

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._named: dict[str, Tracker] = {}
        self._events: EventLog | None = None
        try:
            self._events = EventLog(folder)
        except ModuleNotFoundError:
            self._events = None
        for name in wanted():
            self._try(name, lambda name=name: self._open(name, folder))  # type: ignore[misc]

    def append(self, row: Row) -> None:
        """Hand a row on."""
        if self._events is not None:
            self._events.append(row)
        for name, tracker in list(self._named.items()):
            self._try(name, lambda tracker=tracker: tracker.append(row))  # type: ignore[misc]

    def close(self) -> None:
        """Close all."""
        if self._events is not None:
            self._events.close()
        for name, tracker in list(self._named.items()):
            self._try(name, tracker.close)

    def _open(self, name: str, folder: Path) -> None:
        self._named[name] = _class_of(name)(folder)

    def _try(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever a tracker's library or server does
            self._named.pop(name, None)
            self._tell(one_line(f"the run goes on without tracker '{name}': {error}", 400))


def wanted() -> list[str]:
    """The trackers that ``AUTOFGL_TRACK`` names, besides TensorBoard's."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    return [name for name in names if name and name != "tensorboard"]


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a row, without that of its round."""
    numbers = {key: value for key, value in row.items() if isinstance(value, int | float)}
    return {
        key: float(value)
        for key, value in numbers.items()
        if key != "round" and math.isfinite(value)
    }


def _class_of(name: str) -> Callable[[Path], Tracker]:
    if name in TRACKERS:
        return TRACKERS[name]
    if not is_known("tracker", name):
        raise unknown_name("tracker", name, TRACKERS)
    found: Callable[[Path], Tracker] = find("tracker", name)
    return found
