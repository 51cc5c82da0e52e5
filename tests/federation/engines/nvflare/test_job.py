"""A site lets in exactly our job."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from autofgl.errors import FederationError
from autofgl.federation.engines.nvflare.job import (
    LINE_FILE,
    ServerSession,
    client_config,
    open_line,
    write_job,
)

guard = pytest.importorskip("autofgl.federation.engines.nvflare.site")
NAMES = ("client-0", "client-1", "client-2")


def job(tmp_path: Path) -> Path:
    return write_job(tmp_path / "job", NAMES) / "app"


def test_only_our_stub_is_let_in(tmp_path: Path) -> None:
    app = job(tmp_path)
    assert guard.refusal(app) == ""
    (app / ".__nvfl_sig.json").write_text("{}")
    assert guard.refusal(app) == ""
    (app / "custom").mkdir()
    (app / "custom" / "evil.py").write_text("")
    assert "brings files of its own: custom/evil.py" in guard.refusal(app)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"components": [{"id": "_client", "path": "os.system", "args": {}}]},
            "not AutoFGL's stub",
        ),
        ({"task_data_filters": []}, "not AutoFGL's stub"),
        ({"autofgl": "9.9"}, "the coordinator 9.9: install the same"),
    ],
)
def test_other_jobs_are_refused(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    app = job(tmp_path)
    file = app / "config" / "config_fed_client.json"
    file.write_text(json.dumps({**client_config(), **change}))
    assert reason in guard.refusal(app)
    file.write_text("nonsense")
    assert "cannot be read" in guard.refusal(app)


class DyingServer(ServerSession):
    """Starts a job whose bridge connects, and is gone before it says a word."""

    def __init__(self, kit: Path) -> None:
        self._kit = kit

    def submit(self, sites: Any) -> str:
        address = json.loads((self._kit / "local" / LINE_FILE).read_text())["address"]
        with socket.socket(socket.AF_UNIX) as bridge:
            bridge.connect(address)
        return "job"

    def ended(self, job: str) -> str:
        return ""


def test_a_server_that_dies_while_a_job_begins_is_a_failed_job(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    with pytest.raises(FederationError, match="the job ended before it began"):
        open_line(DyingServer(tmp_path), tmp_path, NAMES, 10.0)
