"""A run's report: written as ``report.html``, or served while the run goes on.

The live view is a small server for this machine that sends server-sent events.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from autofgl.atomic import write_text
from autofgl.errors import UserError
from autofgl.report.charts.network import network_svg
from autofgl.report.page import element, page, page_body, read_asset
from autofgl.report.record import RunRecord
from autofgl.report.sections import run_sections
from autofgl.report.sections.overview import headline, run_title
from autofgl.runs.folder import RunFolder

FILE = "report.html"
#: Seconds between two looks at the folder, and between two heartbeats on a quiet connection.
_LOOK, _HEARTBEAT = 1.0, 15.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def write_report(folder: Path) -> Path:
    """Write ``report.html``, and ``architecture.svg`` if there is a network, into a run folder.

    Raises:
        UserError: There is no run, a file of it is damaged, or the folder cannot be written.
    """
    run = RunRecord.read(folder)
    write_text(folder / FILE, render(run))
    if run.network is not None:
        write_text(folder / "architecture.svg", network_svg(run.network))
    return folder / FILE


def leave_report(folder: Path, console: Console | None) -> None:
    """:func:`write_report` at the end of a run, which must not fail because of its report."""
    try:
        write_report(folder)
    except Exception as error:
        if console is not None:
            console.print(f"no report was written: {error}", markup=False, soft_wrap=True)


def render(run: RunRecord, live: bool = False) -> str:
    """The whole page; a live one has a line on the run's progress, and refreshes itself."""
    state = element("p", progress(run), id="live", role="status", class_="live") if live else None
    script = read_asset("live.js") if live else None
    return page(run_title(run), headline(run), run_sections(run), script, state)


class LiveServer(ThreadingHTTPServer):
    """Serves one run folder; at any free port if it is 0.

    On a loopback address only requests to this machine's own name are answered, so that no web
    page can read it through a name of its own.

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
        """Ignore browsers that have gone; everything else is worth a traceback."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """Its URL."""
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}/"


class _Handler(BaseHTTPRequestHandler):
    """Three pages: the whole, the part to refresh, and the events that say when to refresh it."""

    server: LiveServer
    protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

    def do_GET(self) -> None:
        """Answer."""
        if self.server.only_local and not self._is_local():
            self.send_error(HTTPStatus.FORBIDDEN, "this page is for this machine only")
        elif self.path in ("/", "/content"):
            self._send_run()
        elif self.path == "/events":
            self._send_events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send_run(self) -> None:
        try:
            run = RunRecord.read(self.server.folder)
        except UserError as error:
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return
        whole = self.path == "/"
        self._send(render(run, live=True) if whole else page_body(headline(run), run_sections(run)))

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: the terminal belongs to the user."""

    def _is_local(self) -> bool:
        host = self.headers.get("Host", "")
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        return name.strip("[]") in _LOOPBACK

    def _send(self, text: str) -> None:
        data = text.encode()
        size = {"Content-Length": str(len(data)), "X-Content-Type-Options": "nosniff"}
        self._send_head({"Content-Type": "text/html; charset=utf-8", **size})
        self.wfile.write(data)

    def _send_head(self, headers: dict[str, str]) -> None:
        self.send_response(HTTPStatus.OK)
        for name, value in {**headers, "Cache-Control": "no-store"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _send_events(self) -> None:
        self.close_connection = True
        self._send_head({"Content-Type": "text/event-stream"})
        try:
            for message in events(self.server.folder):
                self.wfile.write(message.encode())
                self.wfile.flush()
        except (OSError, UserError):
            return  # the browser is gone, or a file of the run is damaged


def progress(run: RunRecord) -> str:
    """How far a run is."""
    if run.finished:
        return "Finished."
    return f"Running: {len(run.history)} rounds so far. This page refreshes itself."


def events(folder: Path) -> Iterator[str]:
    """A message for every change of the run, and a heartbeat now and then."""
    run = RunFolder(folder)
    seen: list[tuple[int, int]] | None = None
    quiet = 0.0
    while True:
        status = [path.stat() for path in (run.history, run.result) if path.exists()]
        now = [(file.st_size, file.st_mtime_ns) for file in status]
        if now != seen:
            seen, quiet = now, 0.0
            yield f"event: update\ndata: {progress(RunRecord.read(folder))}\n\n"
        elif quiet >= _HEARTBEAT:
            quiet = 0.0
            yield ": still here\n\n"
        time.sleep(_LOOK)
        quiet += _LOOK
