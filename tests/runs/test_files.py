"""Damaged files of a run, and YAML that would take gigabytes or the stack, end in one line."""

import json
import shutil
import time
from pathlib import Path

import pytest

import autofgl
from autofgl.config import parse_settings
from autofgl.errors import UserError
from autofgl.graphs.client_graph import ClientGraph
from autofgl.report.report import write_report
from autofgl.runs.export import load_model
from autofgl.runs.files import MAX_CHARACTERS, Manifest, parse_yaml
from autofgl.runs.folder import RunFolder, read_config_file
from autofgl.sites.policy import Policy


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


LAUGHS = "a0: &a0 [1, 1]\n" + "".join(
    f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 30)
)
HOSTILE = {
    "a bomb of aliases": LAUGHS,
    "a loop": "a: &a [*a]",
    "merged aliases": "a: &a {b: 1}\nc:\n  <<: *a\n",
    "brackets": "[" * 100_000,
    "braces": "{" * 100_000,
    "dashes": "- " * 50_000,
    "questions": "? " * 50_000,
    "indents": "".join(f"{' ' * at}k:\n" for at in range(500)),
    "too long": "# " + "x" * MAX_CHARACTERS,
    "an endless number": "a: " + "9" * 100_000,
    "no date": "a: 2026-99-99",
    "a tag": "a: !!python/object/apply:os.system [true]",
    "a key twice": "secure: [shares]\nsecure: [none]\n",
    "a zero": "a: \x00",
    "not closed": "a: 'b",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_files_are_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    for read in (read_config_file, Policy.read):
        begin = time.process_time()
        with pytest.raises(UserError, match=r"file\.yaml") as caught:
            read(path)
        assert time.process_time() - begin < 5
        assert "\n" not in str(caught.value)


def test_a_file_that_never_ends_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="zero"):
        read_config_file(Path("/dev/zero"))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_settings_are_just_text(text: str) -> None:
    assert parse_settings([f"keep={text}"]) == {"keep": text}


def test_ordinary_files_are_read() -> None:
    text = "method: fedavg\nsettings: {lr: 1e-3, layers: 2}\nlist:\n- [1, [2, [3]]]\n"
    values = parse_yaml(text, "here")
    assert values["list"] == [[1, [2, [3]]]]
    assert values["settings"]["layers"] == 2
