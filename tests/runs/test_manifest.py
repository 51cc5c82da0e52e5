import json
import shutil
from pathlib import Path

import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.report.report import write_report
from autofgl.runs.export import load_model
from autofgl.runs.files import Manifest
from autofgl.runs.folder import RunFolder


@pytest.fixture(scope="module")
def finished(small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    autofgl.run("fedavg", small_clients, out=folder, rounds=2, hidden=4)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def edit(path: Path) -> None:
    """Change one digit, so that the file is still well formed."""
    text = path.read_bytes()
    at = max(text.rfind(digit) for digit in (b"1", b"2", b"3"))
    path.write_bytes(text[:at] + b"4" + text[at + 1 :])


def test_every_run_has_an_id_of_its_own(tmp_path: Path) -> None:
    ids = {RunFolder.create(tmp_path / name, {}).manifest.run for name in "abc"}
    assert len(ids) == 3
    assert all(len(one) == 32 for one in ids)


def test_a_finished_run_knows_its_files(run: Path) -> None:
    files = set(Manifest.read(run).digests)
    assert files == {
        "config.yaml", "data.json", "history.jsonl", "model.json", "model.safetensors",
        "result.json",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["config.yaml", "data.json", "history.jsonl", "result.json"])
def test_a_report_is_not_made_of_changed_files(run: Path, name: str) -> None:
    edit(run / name)
    message = rf"^[^\n]*{name} was damaged or changed since it was written[^\n]*$"
    with pytest.raises(UserError, match=message):
        write_report(run)


@pytest.mark.parametrize("name", ["history.jsonl", "result.json", "model.json"])
def test_a_missing_file_of_a_finished_run_is_named(run: Path, name: str) -> None:
    (run / name).unlink()
    with pytest.raises(UserError, match=rf"^cannot read [^\n]*{name}: No such file"):
        write_report(run)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_changed_model_is_not_loaded(run: Path, name: str) -> None:
    edit(run / name)
    with pytest.raises(UserError, match=rf"{name} was damaged or changed"):
        load_model(run)


def test_changed_figures_are_not_read(run: Path, small_clients: list[ClientGraph]) -> None:
    edit(run / "result.json")
    with pytest.raises(UserError, match=r"result\.json was damaged or changed"):
        autofgl.resume(run, small_clients)


def test_a_changed_configuration_is_not_resumed(
    run: Path, small_clients: list[ClientGraph]
) -> None:
    (run / "result.json").unlink()
    path = run / "config.yaml"
    path.write_text(path.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(UserError, match=r"config\.yaml was damaged or changed"):
        autofgl.resume(run, small_clients)


def test_a_lost_result_is_written_again(run: Path, small_clients: list[ClientGraph]) -> None:
    weights = (run / "model.safetensors").read_bytes()
    figures = json.loads((run / "result.json").read_text())
    (run / "result.json").unlink()
    again = autofgl.resume(run, small_clients)
    assert again.test_accuracy == figures["test_accuracy"]
    assert (run / "model.safetensors").read_bytes() == weights
    write_report(run)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"run": 1}', b"\xff", b"[" * 10**5])
def test_a_damaged_manifest_is_one_line(run: Path, content: bytes) -> None:
    (run / "run.json").write_bytes(content)
    with pytest.raises(UserError, match=r"^[^\n]*run\.json is damaged: [^\n]*$"):
        write_report(run)


def test_a_changed_digest_is_noticed(run: Path) -> None:
    path = run / "run.json"
    path.write_text(path.read_text().replace('"run": "', '"run": "f', 1))
    with pytest.raises(UserError, match="do not fit together"):
        write_report(run)


def test_folders_of_earlier_versions_are_read_as_they_are(run: Path) -> None:
    (run / "run.json").unlink()
    write_report(run)
    load_model(run)
