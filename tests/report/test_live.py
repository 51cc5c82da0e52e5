"""The live view: what is served, when it is refreshed, and to whom."""

import http.client
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from checker import Page

from autofgl.errors import UserError
from autofgl.report import report
from autofgl.report.report import LiveServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(yaml.safe_dump({"method": "fedavg", "dataset": "cora"}))
    return run


@pytest.fixture
def server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    monkeypatch.setattr(report, "_LOOK", 0.02)
    with LiveServer(folder) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def ask(server: LiveServer, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    response = answer.status, answer.read().decode()
    connection.close()
    return response


def test_the_page_may_run_its_own_script_only(server: LiveServer) -> None:
    status, text = ask(server, "/")
    assert status == 200
    page = Page(text)
    assert page.tags.count("script") == 1
    assert "script-src &#x27;sha256-" in text
    assert "connect-src &#x27;self&#x27;" in text
    assert "Running: 0 rounds" in page.text
    status, part = ask(server, "/content")
    assert status == 200
    assert "<script" not in part
    assert ask(server, "/../config.yaml")[0] == 404


def test_others_names_for_this_machine_are_refused(server: LiveServer) -> None:
    assert ask(server, "/", Host="evil.example:80")[0] == 403
    assert ask(server, "/", Host="localhost:1")[0] == 200
    assert server.server_address[0] == "127.0.0.1"


def test_a_new_round_is_announced(server: LiveServer, folder: Path) -> None:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream"
    assert answer.readline() == b"event: update\n"
    assert b"0 rounds" in answer.readline()
    (folder / "history.jsonl").write_text(json.dumps({"round": 1, "val_accuracy": 0.5}) + "\n")
    assert answer.readline() == b"\n"
    assert answer.readline() == b"event: update\n"
    assert b"1 rounds" in answer.readline()
    assert "Accuracy over round" in ask(server, "/content")[1]
    (folder / "result.json").write_text(json.dumps({"test_accuracy": 0.5}))
    assert [answer.readline() for _ in range(3)][2] == b"data: Finished.\n"
    connection.close()


def test_what_cannot_be_watched(tmp_path: Path, folder: Path, server: LiveServer) -> None:
    with pytest.raises(UserError, match="holds no run"):
        LiveServer(tmp_path / "nothing")
    with pytest.raises(UserError, match="cannot listen at"):
        LiveServer(folder, port=server.server_address[1])
