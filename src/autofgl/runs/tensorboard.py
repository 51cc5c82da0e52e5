"""TensorBoard events, if the ``tensorboard`` extra is installed."""

import time
from pathlib import Path
from typing import Any


class EventLog:
    """Writes every number of a row as a scalar."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer: Any = EventFileWriter(str(folder))

    def append(self, row: dict[str, Any]) -> None:
        """Add a row."""
        values = [
            self._summary.Value(tag=key, simple_value=float(value))
            for key, value in row.items()
            if isinstance(value, int | float) and key != "round"
        ]
        summary = self._summary(value=values)
        self._writer.add_event(
            self._event(wall_time=time.time(), step=row["round"], summary=summary)
        )

    def close(self) -> None:
        """Flush and let the file go."""
        self._writer.close()


def open_event_log(folder: Path) -> EventLog | None:
    """An event log, or none without the extra (``pip install 'autofgl[tensorboard]'``)."""
    try:
        return EventLog(folder)
    except ModuleNotFoundError:
        return None
