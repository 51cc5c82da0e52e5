"""Findings 11 and 12: damaged or swapped checkpoints, and a client called ``server``.

Of 1,764 damaged run folders 32 were resumed silently with other weights, and 342 ended in a
traceback, since checkpoint files had no digest and did not say whose they were. A client called
``server`` kept its state in the very file of the server's.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autofgl.errors import UserError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import Payload
from autofgl.runs.checkpoint import load_latest, save

RUN, OTHER_RUN = "1" * 32, "2" * 32


class Trainer(Party):
    """Has weights that are its own, and change with every round."""

    operations = frozenset({"train", "weights"})

    def __init__(self, context: Context) -> None:
        self.weights_ = np.full(50, float(len(context.name)))

    def train(self, payload: Payload) -> Payload:
        self.weights_ = self.weights_ + payload["by"]
        return {}

    def weights(self, payload: Payload) -> Payload:
        return {"weights": self.weights_}

    def state(self) -> Payload:
        return {"weights": self.weights_}

    def load_state(self, state: Payload) -> None:
        self.weights_ = state["weights"].copy()


def begin(folder: Path, *names: str) -> InProcess:
    return InProcess(dict.fromkeys(names or ("a", "bb", "ccc"), Trainer), folder=folder)


def make_run(folder: Path, run: str = RUN, rounds: int = 4, by: float = 1.0) -> None:
    """Rounds with a checkpoint each, of which the last two are kept."""
    federation = begin(folder)
    for at in range(1, rounds + 1):
        federation.call("train", {"by": by})
        save(folder, at, {"round": at}, federation, run)
    federation.close()


def resume(folder: Path) -> tuple[int, dict[str, float], list[str]]:
    """The round that a run goes on from, everybody's weights, and what was said."""
    federation = begin(folder)
    said: list[str] = []
    try:
        at = load_latest(folder, federation, RUN, notice=said.append)["round"]
        replies = federation.call("weights").ok
        return at, {name: float(reply["weights"][0]) for name, reply in replies.items()}, said
    finally:
        federation.close()


def newest(folder: Path, party: str) -> Path:
    return folder / "round-00000004" / "parties" / f"{party}.afp"


def flip_a_weight(folder: Path, _: Path) -> None:
    path = newest(folder, "a")
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def flip_the_servers(folder: Path, _: Path) -> None:
    path = folder / "round-00000004" / "server.afp"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def swap_two_clients(folder: Path, _: Path) -> None:
    one, other = newest(folder, "a"), newest(folder, "bb")
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)


def put_back_an_older_round(folder: Path, _: Path) -> None:
    shutil.copy(folder / "round-00000003" / "parties" / "a.afp", newest(folder, "a"))


def take_a_clients_of_another_run(folder: Path, other: Path) -> None:
    shutil.copy(newest(other, "a"), newest(folder, "a"))


def take_all_of_another_run(folder: Path, other: Path) -> None:
    shutil.rmtree(folder / "round-00000004")
    shutil.copytree(other / "round-00000004", folder / "round-00000004")


def cut(folder: Path, _: Path) -> None:
    path = newest(folder, "ccc")
    path.write_bytes(path.read_bytes()[:100])


def empty(folder: Path, _: Path) -> None:
    newest(folder, "ccc").write_bytes(b"")


def delete(folder: Path, _: Path) -> None:
    newest(folder, "ccc").unlink()


def replace_by_a_folder(folder: Path, _: Path) -> None:
    newest(folder, "ccc").unlink()
    newest(folder, "ccc").mkdir()


ATTACKS = [
    flip_a_weight, flip_the_servers, swap_two_clients, put_back_an_older_round,
    take_a_clients_of_another_run, take_all_of_another_run, cut, empty, delete, replace_by_a_folder,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_damaged_checkpoint_is_left_for_the_one_before(
    attack: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make_run(ours)
    make_run(theirs, OTHER_RUN, by=10.0)
    assert resume(ours) == (4, {"a": 5.0, "bb": 6.0, "ccc": 7.0}, [])
    attack(ours, theirs)
    at, weights, said = resume(ours)
    assert (at, weights) == (3, {"a": 4.0, "bb": 5.0, "ccc": 6.0})
    [notice] = said
    assert notice.endswith(": going back to round-00000003")
    assert "\n" not in notice


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_another_one_it_is_one_line(
    attack: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    make_run(ours)
    make_run(theirs, OTHER_RUN, by=10.0)
    attack(ours, theirs)
    shutil.rmtree(ours / "round-00000003")
    with pytest.raises(UserError, match=r"^[^\n]*no other can be used: start the run again$"):
        resume(ours)


def test_a_run_that_went_back_saves_over_what_was_damaged(tmp_path: Path) -> None:
    make_run(tmp_path)
    replace_by_a_folder(tmp_path, tmp_path)
    federation = begin(tmp_path)
    load_latest(tmp_path, federation, RUN)
    federation.call("train", {"by": 1.0})
    save(tmp_path, 4, {"round": 4}, federation, RUN)
    federation.close()
    assert resume(tmp_path) == (4, {"a": 5.0, "bb": 6.0, "ccc": 7.0}, [])


def test_a_client_called_server_has_a_file_of_its_own(tmp_path: Path) -> None:
    federation = begin(tmp_path, "server", "b")
    save(tmp_path, 1, {"round": 1, "secret": "of the server"}, federation, RUN)
    federation.call("train", {"by": 1.0})
    assert load_latest(tmp_path, federation, RUN)["secret"] == "of the server"
    replies = federation.call("weights").ok
    assert {name: reply["weights"][0] for name, reply in replies.items()} == {"server": 6, "b": 1}
    federation.close()


@pytest.mark.parametrize("name", ["../server", "../../round-00000001/server", "parties/b", "b.afp"])
def test_no_name_reaches_a_file_of_others(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "checkpoint"
    federation = begin(folder, name, "b")
    save(folder, 1, {"round": 1}, federation, RUN)
    assert load_latest(folder, federation, RUN)["round"] == 1
    federation.close()
    files = sorted(path.parent.name for path in tmp_path.rglob("*.afp"))
    assert files == ["parties", "parties", "round-00000001"]
