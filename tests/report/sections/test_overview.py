"""What a report says about the clients, and who learns what."""

import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))
from run_folders import page_of, write_run

from autofgl.methods.catalog import METHODS
from autofgl.methods.privacy import WHO_LEARNS_WHAT


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


def test_every_method_says_who_learns_what() -> None:
    assert set(METHODS) <= set(WHO_LEARNS_WHAT)


@pytest.mark.parametrize("secure", ["none", "shares"])
def test_the_secure_mode_decides_what_the_server_learns(secure: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    config = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**config, "secure": secure}))
    page = page_of(run)
    hidden = "another client's update, node counts, losses or accuracies"
    assert (hidden in page.text) == (secure == "shares")
    assert ("every client's weighted gradients" in page.text) == (secure == "none")
    assert "aggregate=parameters" in page.text or secure == "none"


def test_a_method_of_somebody_else_has_a_section_too(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump({"method": "theirs", "secure": "ckks"}))
    page = page_of(run)
    assert "The documentation of theirs says who learns what." in page.text
    assert "who-learns-what" in page.ids


def test_what_the_run_was_judged_by_stands_first(tmp_path: Path) -> None:
    metrics = {split: {"auroc": value} for split, value in (("val", 0.91), ("test", 0.9))}
    judged = {"objective": "auroc", "metrics": metrics, "test_accuracy": 0.97}
    text = page_of(write_run(tmp_path / "run", **judged)).text
    places = [text.index(name) for name in ("test AUROC", "validation AUROC", "test accuracy")]
    assert places == sorted(places)
    plain = {"objective": "accuracy", "metrics": metrics, "test_accuracy": 0.97}
    text = page_of(write_run(tmp_path / "plain", **plain)).text
    assert text.index("test accuracy") < text.index("AUROC")
