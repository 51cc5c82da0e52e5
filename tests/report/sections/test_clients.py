"""What a report says about the clients."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from run_folders import page_of, write_run


@pytest.mark.parametrize("count", [1, 50])
def test_any_number_of_clients(count: int, tmp_path: Path) -> None:
    clients = [
        {"name": f"client-{at}", "nodes": 10 + at, "test_accuracy": at / count, "labels": [at, 1]}
        for at in range(count)
    ]
    rows = [
        {"round": at, "client_accuracy": {row["name"]: row["test_accuracy"] for row in clients}}
        for at in (1, 2)
    ]
    run = write_run(tmp_path / "run", rows, per_client=clients, test_accuracy=0.5)
    page = page_of(run)
    assert f"client-{count - 1}" in page.words
    assert "Client accuracy of the clients" in page.text
    assert ("All 50 clients" in page.text) == (count == 50)
