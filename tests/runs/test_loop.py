import io
from pathlib import Path

from rich.console import Console

from autofgl.runs.folder import RunFolder, read_history
from autofgl.runs.loop import Recorder


def test_history_keeps_rows_up_to_a_round(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with Recorder(folder, 0, 3, "demo", None) as recorder:
        for at in (1, 2, 3):
            recorder.append({"round": at, "loss": 1 / at})
    with folder.history.open("a") as file:
        file.write('{"round": 4, "lo')  # killed in the middle of a line
    assert [row["round"] for row in read_history(folder.history)] == [1, 2, 3]
    with Recorder(folder, 2, 3, "demo", None) as again:
        again.append({"round": 3, "loss": 0.0})
    assert [row["loss"] for row in read_history(folder.history)] == [1.0, 0.5, 0.0]


def test_a_pipe_gets_a_line_every_tenth_of_the_way(tmp_path: Path) -> None:
    text = io.StringIO()
    with Recorder(RunFolder(tmp_path), 0, 20, "demo", Console(file=text)) as recorder:
        for at in range(1, 21):
            recorder.append({"round": at, "train_loss": 0.5, "val_accuracy": None})
    lines = text.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[-1] == "demo 20/20  train_loss 0.5000"
