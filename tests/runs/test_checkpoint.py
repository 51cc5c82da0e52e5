"""Checkpoints while parties are lost and come back."""

from pathlib import Path

import pytest

from autofgl.errors import UserError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import Payload
from autofgl.runs.checkpoint import load_latest, save


class Diary(Party):
    """Knows which rounds it has seen."""

    operations = frozenset({"see", "seen"})

    def __init__(self, context: Context) -> None:
        self.rounds: list[int] = []

    def see(self, payload: Payload) -> Payload:
        self.rounds.append(payload["round"])
        return {}

    def seen(self, payload: Payload) -> Payload:
        return {"rounds": self.rounds}

    def state(self) -> Payload:
        return {"rounds": self.rounds}

    def load_state(self, state: Payload) -> None:
        self.rounds = list(state["rounds"])


def begin(folder: Path, *names: str) -> InProcess:
    return InProcess(dict.fromkeys(names, Diary), folder=folder)


def make(federation: InProcess, folder: Path, *rounds: int) -> None:
    for at in rounds:
        federation.call("see", {"round": at})
        save(folder, at, {"round": at}, federation)


def tags(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("round-*"))


def test_a_party_that_returns_takes_part_from_its_last_checkpoint(tmp_path: Path) -> None:
    federation = begin(tmp_path, "a", "b")
    make(federation, tmp_path, 1, 2)
    federation.drop("b")
    make(federation, tmp_path, 3, 4)
    federation.close()
    kept = ["round-00000002", "round-00000003", "round-00000004"]
    assert tags(tmp_path) == kept, "the last one of b, and the two newest"

    together = begin(tmp_path, "a", "b")
    assert load_latest(tmp_path, together)["round"] == 2
    assert [reply["rounds"] for reply in together.call("seen").ok.values()] == [[1, 2], [1, 2]]
    make(together, tmp_path, 3)
    together.close()
    assert tags(tmp_path) == ["round-00000002", "round-00000003"]


def test_without_it_the_others_go_on_from_the_newest(tmp_path: Path) -> None:
    federation = begin(tmp_path, "a", "b")
    make(federation, tmp_path, 1)
    federation.drop("b")
    make(federation, tmp_path, 2)
    federation.close()
    alone = begin(tmp_path, "a")
    assert load_latest(tmp_path, alone)["round"] == 2
    make(alone, tmp_path, 3, 4)
    alone.close()
    assert tags(tmp_path) == ["round-00000001", "round-00000003", "round-00000004"]


def test_no_checkpoint_is_said(tmp_path: Path) -> None:
    federation = begin(tmp_path, "a")
    with pytest.raises(UserError, match="no checkpoint"):
        load_latest(tmp_path, federation)
    federation.close()
