"""Where the rows of a run go besides its history."""

from pathlib import Path
from typing import Any

import pytest

from autofgl.runs.folder import RunFolder
from autofgl.runs.tracking import Trackers, numbers_of

ROWS: list[dict[str, Any]] = [
    {"round": 1, "train_loss": 2.0, "val_accuracy": 0.25, "phase": "race", "loss": float("nan")},
    {"round": 2, "train_loss": 1.0, "val_accuracy": 0.5},
]
OWN = """
from pathlib import Path

class Own:
    def __init__(self, folder):
        self.path = folder / "own.txt"
    def append(self, row):
        if row["round"] == 2 and (self.path.parent / "break").exists():
            raise RuntimeError("the server\\nis gone")
        self.add(f"{row['round']} ")
    def close(self):
        self.add("closed")
    def add(self, text):
        with self.path.open("a") as stream:
            stream.write(text)
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    config = {"method": "fedavg", "seed": 3, "budget": None, "settings": {"lr": 0.02}}
    return RunFolder.create(tmp_path / "run", config)


def track(run: RunFolder, rows: list[dict[str, Any]] = ROWS) -> list[str]:
    told: list[str] = []
    trackers = Trackers(run.path, told.append)
    for row in rows:
        trackers.append(row)
    trackers.close()
    return told


def test_the_numbers_of_a_row() -> None:
    assert numbers_of(ROWS[0]) == {"train_loss": 2.0, "val_accuracy": 0.25}


def test_a_tracker_of_ones_own(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    file = run.path.parent / "own.py"
    file.write_text(OWN)
    monkeypatch.setenv("AUTOFGL_TRACK", f"tensorboard, {file}:Own")
    assert track(run) == []
    assert (run.path / "own.txt").read_text() == "1 2 closed"
    (run.path / "break").touch()
    lines = track(run)
    assert lines == [f"the run goes on without tracker '{file}:Own': the server is gone"]
    assert (run.path / "own.txt").read_text() == "1 2 closed1 "


@pytest.mark.parametrize(
    ("name", "reason"), [("mlfow", "did you mean mlflow"), ("no.py:Such", "no.py")]
)
def test_a_tracker_that_is_not_there(
    name: str, reason: str, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOFGL_TRACK", name)
    (line,) = track(run)
    assert reason in line


def test_tensorboard_has_every_number(run: RunFolder) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    track(run)
    (file,) = run.path.glob("events.out.tfevents.*")
    events = [event for event in EventFileLoader(str(file)).Load() if event.summary.value]
    assert [event.step for event in events] == [1, 2]
    values = {value.tag: value.tensor.float_val[0] for value in events[1].summary.value}
    assert values == {"train_loss": 1.0, "val_accuracy": 0.5}


@pytest.mark.slow  # MLflow sets up its database for some seconds
@pytest.mark.filterwarnings("ignore")
def test_mlflow_keeps_a_run_and_goes_on_with_it(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    import autofgl

    store = f"sqlite:///{run.path.parent / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    monkeypatch.setenv("AUTOFGL_TRACK", "mlflow")
    assert track(run) == []
    assert track(run, [{"round": 3, "train_loss": 0.5}]) == [], "a resumed run"
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("autofgl")
    assert experiment is not None
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.run_name == "run"
    assert kept.info.status == "FINISHED"
    assert kept.data.params == {"method": "fedavg", "seed": "3", "lr": "0.02"}
    history = client.get_metric_history(kept.info.run_id, "train_loss")
    assert [(metric.step, metric.value) for metric in history] == [(1, 2.0), (2, 1.0), (3, 0.5)]
    clients = autofgl.partition(autofgl.load("cora"), clients=2)
    result = autofgl.run("fedavg", clients, rounds=4, out=run.path.parent / "whole")
    second = client.search_runs([experiment.experiment_id], "attributes.run_name = 'whole'")[0]
    assert second.data.metrics["val_loss"] > 0
    assert client.get_metric_history(second.info.run_id, "val_loss")[-1].step == 4
    assert result.test_accuracy >= 0


def test_mlflow_that_is_missing_is_one_line(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow.tracking", None)
    monkeypatch.setenv("AUTOFGL_TRACK", "mlflow")
    assert "pip install 'autofgl[mlflow]'" in track(run)[0]
