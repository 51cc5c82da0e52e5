"""The report of a run while it goes on: a small server for this machine, server-sent events."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from autofgl.errors import UserError
from autofgl.report.markup import element
from autofgl.report.overview import headline, title
from autofgl.report.page import content, page
from autofgl.report.record import RunRecord
from autofgl.report.report import sections
from autofgl.report.style import read
from autofgl.runs.folder import RunFolder

#: Seconds between two looks at the folder, and between two signs of life on a quiet line.
_LOOK, _HEARTBEAT = 1.0, 15.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class LiveServer(ThreadingHTTPServer):
    """Serves one run folder.

    Args:
        folder: The run folder.
        host: Address to listen at. On a loopback address only requests to this machine's own name
            are answered, so that no page from elsewhere can read it by a name of its own.
        port: Port; 0 for any free one.

    Raises:
        UserError: There is no run, or the address cannot be used.
    """

    daemon_threads = True

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        RunFolder.open(folder)
        self.folder = folder
        self.only_local = host in _LOOPBACK
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise UserError(f"cannot listen at {host}:{port}: {error.strerror}") from error

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over browsers that have gone; everything else is worth a traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    """Three pages: the whole, its renewable part, and the events that tell when to renew it."""

    server: LiveServer
    protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

    def do_GET(self) -> None:
        """Answer."""
        if self.server.only_local and not self._is_local():
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine only")
        elif self.path == "/":
            self._send(live_page(RunRecord.read(self.server.folder)))
        elif self.path == "/content":
            run = RunRecord.read(self.server.folder)
            self._send(content(headline(run), sections(run)))
        elif self.path == "/events":
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: the terminal belongs to the user."""

    def _is_local(self) -> bool:
        host = self.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return name.strip("[]") in _LOOPBACK

    def _send(self, text: str) -> None:
        data = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def _send_events(self) -> None:
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        try:
            for message in events(self.server.folder):
                self.wfile.write(message.encode())
                self.wfile.flush()
        except OSError:
            return  # the browser has gone


def live_page(run: RunRecord) -> str:
    """The report with a line that tells how far the run is, and the script that renews it."""
    state = element("p", progress(run), id="live", role="status", class_="live")
    return page(title(run), headline(run), sections(run), script=read("live.js"), before=state)


def progress(run: RunRecord) -> str:
    """How far a run is."""
    if run.finished:
        return "Finished."
    return f"Running: {len(run.history)} rounds so far. This page renews itself."


def events(folder: Path) -> Iterator[str]:
    """A message for every change of the run, and a sign of life now and then."""
    seen: tuple[int, ...] | None = None
    quiet = 0.0
    while True:
        now = _state(folder)
        if now != seen:
            seen, quiet = now, 0.0
            yield f"event: update\ndata: {progress(RunRecord.read(folder))}\n\n"
        elif quiet >= _HEARTBEAT:
            quiet = 0.0
            yield ": still here\n\n"
        time.sleep(_LOOK)
        quiet += _LOOK


def _state(folder: Path) -> tuple[int, ...]:
    """What changes when the run goes on."""
    run = RunFolder(folder)
    found = []
    for path in (run.history, run.result):
        try:
            status = path.stat()
        except OSError:
            found += [0, 0]
        else:
            found += [status.st_size, status.st_mtime_ns]
    return tuple(found)
