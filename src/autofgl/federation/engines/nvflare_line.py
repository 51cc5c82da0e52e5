"""The coordinator's line to the bridge of a running job."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from autofgl.atomic import write_text
from autofgl.errors import FederationError, PayloadError, UserError
from autofgl.federation.engines.nvflare_session import Session
from autofgl.federation.engines.nvflare_stub import LINE_FILE
from autofgl.federation.frames import join, split, split_answer
from autofgl.federation.payload import Payload
from autofgl.federation.pipe import Pipe, PipeListener


class Answer(NamedTuple):
    """What a site answered: a note with ``kind`` and ``message``, and the payload's bytes."""

    note: Payload
    data: bytes


class Line:
    """Calls to sites, many at once, over one connection to the job.

    Args:
        pipe: The connection.
        at_end: Called once the line is closed.
    """

    def __init__(self, pipe: Pipe, at_end: Callable[[], None] = lambda: None) -> None:
        self.on_peer_traffic: Callable[[str, int], None] = lambda op, size: None  # noqa: ARG005
        self._pipe = pipe
        self._at_end = at_end
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Answer]] = {}
        self._lock = threading.Lock()
        self._ended = ""
        self._thread = threading.Thread(target=self._receive, name="line", daemon=True)
        self._thread.start()

    def call(self, party: str, op: str, data: bytes, timeout: float | None) -> "Future[Answer]":
        """Send a call; its answer comes later, and comes in any case."""
        future: Future[Answer] = Future()
        with self._lock:
            number = next(self._ids)
            if self._ended:
                future.set_result(_lost(self._ended))
                return future
            self._waiting[number] = future
        note = {"id": number, "party": party, "op": op, "timeout": float(timeout or 0)}
        try:
            self._pipe.send(join(note, data))
        except OSError as error:
            self._end(f"the server's job is gone: {error}")
        return future

    def close(self) -> None:
        """Hang up, and see the job to its end."""
        self.hang_up()
        self._at_end()

    def hang_up(self) -> None:
        """Let the job end by itself."""
        self._end("the federation is closed")
        self._pipe.close()
        self._thread.join(5)

    def _receive(self) -> None:
        with suppress(EOFError, OSError, PayloadError):
            while True:
                self._take(*split(self._pipe.receive()))
        self._end("the server's job has ended")

    def _take(self, note: Payload, data: bytes) -> None:
        answer = Answer(note, data)
        if note["kind"] == "ok" and data:
            answer = _read(data)
            for op, sizes in answer.note["peer"].items():
                for size in sizes:
                    self.on_peer_traffic(op, size)
        with self._lock:
            future = self._waiting.pop(note["id"], None)
        if future is not None:
            future.set_result(answer)

    def _end(self, reason: str) -> None:
        with self._lock:
            self._ended = self._ended or reason
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_result(_lost(reason))


def open_line(
    session: Session, kit: Path, sites: Sequence[str], seconds: float, see_out: bool = True
) -> Line:
    """Start a job at the sites and wait for its bridge.

    Args:
        session: Connection to the server.
        kit: The server's kit, where the bridge finds the address of the line.
        sites: Who takes part; all are connected.
        seconds: How long to wait.
        see_out: Whether closing the line waits for the job's end.

    Raises:
        UserError: A site refused the job.
        FederationError: The job failed or did not start in time.
    """
    listener = PipeListener()
    try:
        write_text(kit / "local" / LINE_FILE, json.dumps({"address": listener.address}))
        job = session.submit(sites)
        deadline = time.monotonic() + seconds
        while (pipe := listener.accept(0.5)) is None:
            ended = session.ended(job)
            if ended:
                raise _failed(session, job, ended)
            if time.monotonic() > deadline:
                session.abort(job)
                raise FederationError(f"the job did not start within {seconds:.0f} s")
        note, _ = split(pipe.receive())
        if note["kind"] != "ready":
            raise FederationError(f"the job is not ready: {note['message']}")
        return Line(pipe, (lambda: _settle(session, job)) if see_out else (lambda: None))
    finally:
        listener.close()


def _failed(session: Session, job: str, ended: str) -> Exception:
    refusals = session.refusals(job)
    if refusals:
        return UserError(f"sites refuse the job: {'; '.join(refusals)}")
    return FederationError(f"the job ended before it began: {ended}")


def _settle(session: Session, job: str, seconds: float = 15.0) -> None:
    """See a job to its end, and help if it does not come by itself."""
    deadline = time.monotonic() + seconds
    with suppress(FederationError):
        while not session.ended(job):
            if time.monotonic() > deadline:
                session.abort(job)
                return
            time.sleep(0.2)


def _read(data: bytes) -> Answer:
    """A site's own frame; a site that sends something else has failed."""
    try:
        return Answer(*split_answer(data))
    except PayloadError as error:
        message = f"sent a malformed answer: {error}"
        return Answer({"kind": "exception", "message": message, "peer": {}}, b"")


def _lost(reason: str) -> Answer:
    return Answer({"kind": "lost", "message": reason}, b"")
