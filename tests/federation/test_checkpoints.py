from pathlib import Path

import numpy as np
import pytest

from autofgl.errors import UserError
from autofgl.federation.checkpoints import (
    FORMAT,
    CheckpointError,
    Label,
    PartyStates,
    read_state,
    write_state,
)
from autofgl.federation.party import Party
from autofgl.federation.payload import Payload

LABEL = Label("run", "round-1", "a")


class Keeper(Party):
    """Has one number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def state(self) -> Payload:
        return {"number": self.number}

    def load_state(self, state: Payload) -> None:
        self.number = state["number"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.afp"
    write_state(file, LABEL, {"x": np.arange(10)})
    return file


def test_a_state_comes_back(path: Path) -> None:
    assert np.array_equal(read_state(path, LABEL)["x"], np.arange(10))
    digest = write_state(path, LABEL, {"x": 1})
    assert read_state(path, LABEL, digest) == {"x": 1}
    assert [file.name for file in path.parent.iterdir()] == ["a.afp"]


def test_every_bit_and_every_length_counts(path: Path) -> None:
    write_state(path, LABEL, {"x": 1})
    data = path.read_bytes()
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(bytes(flipped))
        with pytest.raises(CheckpointError, match=r"a\.afp is damaged"):
            read_state(path, LABEL)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match=r"a\.afp is damaged"):
            read_state(path, LABEL)
    path.write_bytes(data + b"\0")
    with pytest.raises(CheckpointError, match=r"a\.afp is damaged"):
        read_state(path, LABEL)


@pytest.mark.parametrize("key", ["run", "tag", "party"])
def test_a_file_of_another_place_is_told(path: Path, key: str) -> None:
    other = Label(**{**vars(LABEL), key: "other"})
    with pytest.raises(CheckpointError, match=f"it belongs to {key} .*, not 'other'"):
        read_state(path, other)


def test_a_file_with_another_digest_is_told(path: Path) -> None:
    with pytest.raises(CheckpointError, match="not the file that belongs to the server's"):
        read_state(path, LABEL, "0" * 64)


def test_other_formats_are_named(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4] + (FORMAT + 1).to_bytes(4, "little") + data[8:])
    with pytest.raises(CheckpointError, match=f"format {FORMAT + 1}, .* reads {FORMAT}"):
        read_state(path, LABEL)
    path.write_bytes(b"AFP1" + data[4:])
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        read_state(path, LABEL)


def test_files_that_cannot_be_written_or_read_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot write checkpoint .*then resume the run$"):
        write_state(tmp_path / "file" / "a.afp", LABEL, {})
    with pytest.raises(UserError, match=r"none\.afp cannot be read: No such file or directory$"):
        read_state(tmp_path / "none.afp", LABEL)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_state(tmp_path, LABEL)


@pytest.mark.parametrize("name", ["server", "../../server", "a/b", "ä b", "."])
def test_any_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    label = Label("run", "round-1", name)
    states = PartyStates(tmp_path)
    digest = states.save(label, Keeper(3))
    [file] = tmp_path.rglob("*.afp")
    assert file.parent == tmp_path / "round-1" / "parties"
    party = Keeper(0)
    states.restore(label, digest, party)
    assert party.number == 3
    states.remove(label)
    assert not list(tmp_path.iterdir())
