import shutil
import threading
from pathlib import Path
from typing import ClassVar

import pytest
import torch

from autofgl.errors import FederationError
from autofgl.federation.checkpoints import CheckpointError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import Payload

pytestmark = pytest.mark.cores


class Gate(Party):
    """Two parties that only get through together."""

    operations: ClassVar[frozenset[str]] = frozenset({"meet", "threads"})
    barrier: ClassVar[threading.Barrier]

    def __init__(self, context: Context) -> None:
        self.context = context

    def meet(self, payload: Payload) -> Payload:
        self.barrier.wait(timeout=5)
        return {}

    def threads(self, payload: Payload) -> Payload:
        return {"threads": torch.get_num_threads()}


def test_parties_run_at_the_same_time() -> None:
    Gate.barrier = threading.Barrier(2)
    federation = InProcess({"a": Gate, "b": Gate}, workers=2)
    assert len(federation.call("meet").ok) == 2
    federation.close()


def test_parties_use_one_torch_thread_and_leave_the_caller_alone() -> None:
    torch.set_num_threads(2)
    assert torch.get_num_threads() == 2, "torch settles a thread's number at its first use"
    federation = InProcess({"a": Gate})
    try:
        assert federation.call("threads").ok["a"]["threads"] == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
        federation.close()


def test_the_observer_sees_every_message() -> None:
    seen: list[tuple[str, str, str]] = []
    federation = InProcess(
        {"a": Gate}, observer=lambda way, party, op, _: seen.append((way, party, op))
    )
    federation.call("threads")
    federation.close()
    assert seen == [("down", "a", "threads"), ("up", "a", "threads")]


def test_a_party_that_cannot_be_built_says_why() -> None:
    def broken(context: Context) -> Party:
        raise ValueError("no graph here")

    with pytest.raises(ValueError, match="no graph here"):
        InProcess({"a": broken})


def test_closing_ends_every_thread() -> None:
    before = set(threading.enumerate())
    federation = InProcess({"a": Gate, "b": Gate, "c": Gate})
    federation.call("threads")
    assert set(threading.enumerate()) - before
    federation.drop("b")
    federation.close()
    assert not set(threading.enumerate()) - before, "those of earlier tests may end meanwhile"


def test_a_federation_needs_parties_and_a_folder_for_checkpoints() -> None:
    with pytest.raises(FederationError, match="at least one"):
        InProcess({})
    federation = InProcess({"a": Gate})
    with pytest.raises(FederationError, match="folder"):
        federation.checkpoint("x")
    federation.close()


def test_a_folder_that_is_deleted_meanwhile_is_a_sentence(tmp_path: Path) -> None:
    run = tmp_path / "run"
    federation = InProcess({"a": Gate, "b": Gate}, folder=run / "checkpoint")
    federation.checkpoint("round-1")
    shutil.rmtree(run)
    with pytest.raises(CheckpointError, match=r"checkpoint was deleted .*: start the run again$"):
        federation.checkpoint("round-2")
    assert not run.exists(), "half a run folder would look like a run"
    federation.close()
