"""The coordinator's patience, with sites and jobs that are only pretended."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autofgl.config import check_config, sort_settings
from autofgl.errors import FederationError, PartiesReturned, UserError
from autofgl.execution import DataSummary
from autofgl.federation.checkpoints import Label, write_state
from autofgl.methods.catalog import find_method
from autofgl.runs.folder import RunFolder
from autofgl.sites import coordinator as module
from autofgl.sites.coordinator import Coordinator, Deployment


class Sessions:
    """What the server answers, one look after the other; the last answer stays."""

    def __init__(self, looks: Sequence[Sequence[str] | None]) -> None:
        self.looks: Iterator[Sequence[str] | None] = iter([*looks, *[looks[-1]] * 1000])

    def __call__(self, kit: Path) -> "Sessions":
        return self

    def connected(self) -> dict[str, float]:
        return dict.fromkeys(next(self.looks) or (), 0.0)

    def close(self) -> None:
        pass


@pytest.fixture
def said() -> StringIO:
    return StringIO()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)


def make(tmp_path: Path, said: StringIO, grace: float = 0.0, **settings: Any) -> Coordinator:
    config = check_config({"method": "fedavg", "partition": "given", "settings": settings})
    layers = sort_settings(config, find_method("fedavg").Settings)
    folder = RunFolder.create(tmp_path / "run", {"method": "fedavg"})
    deployment = Deployment(tmp_path, tmp_path, ["a", "b", "c"], grace_s=grace)
    return Coordinator(config, layers, deployment, "run", folder, Console(file=said, width=200))


def reach(tmp_path: Path, at: int, *parties: str) -> None:
    """A checkpoint in which these parties have a part."""
    tag = f"round-{at:08d}"
    path = tmp_path / "run" / "checkpoint" / tag / "server.afp"
    write_state(
        path, Label(RunFolder(tmp_path / "run").manifest.run, tag), {"parties": list(parties)}
    )


def test_a_run_begins_with_all_sites(tmp_path: Path, said: StringIO) -> None:
    looks = [["a"], ["a", "b"], ["a", "b"], ["c", "b", "a"]]
    assert make(tmp_path, said)._wait_for_sites(Sessions(looks)) == ["a", "b", "c"]
    assert said.getvalue() == "waiting for b, c\nwaiting for c\n"


def test_a_run_under_way_goes_on_with_enough(tmp_path: Path, said: StringIO) -> None:
    coordinator = make(tmp_path, said, grace=-1.0, min_clients=2)
    reach(tmp_path, 5)
    assert coordinator._wait_for_sites(Sessions([["a"], ["a", "c"]])) == ["a", "c"]
    assert said.getvalue() == "waiting for b, c\ncontinuing without b\n"


def test_the_server_is_waited_for(
    tmp_path: Path, said: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def connect(kit: Path) -> Sessions:
        tries.append(kit)
        if len(tries) < 4:
            raise FederationError("the server does not answer")
        return Sessions([["a"]])

    monkeypatch.setattr(module, "ServerSession", connect)
    make(tmp_path, said)._connect()
    assert len(tries) == 4
    assert said.getvalue() == "waiting for the server: the server does not answer\n"


def test_jobs_follow_each_other_while_the_run_gets_further(
    tmp_path: Path, said: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = make(tmp_path, said)
    jobs = iter(range(12))

    def run_job(data: DataSummary) -> str:
        at = next(jobs)
        if at == 3:
            raise PartiesReturned(["b"])
        if at < 9:
            reach(tmp_path, at)
            raise module._JobFailed("a is lost")
        return "result"

    monkeypatch.setattr(coordinator, "_run_job", run_job)
    assert coordinator.run(DataSummary(3)) == "result"
    assert "b can take part again: continuing with all sites\n" in said.getvalue()
    assert said.getvalue().count("a is lost: beginning a new job\n") == 8


def test_a_run_that_gets_no_further_is_given_up(
    tmp_path: Path, said: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = make(tmp_path, said)

    def run_job(data: DataSummary) -> str:
        raise module._JobFailed("a is lost")

    monkeypatch.setattr(coordinator, "_run_job", run_job)
    with pytest.raises(FederationError, match="given up after 5 tries: a is lost"):
        coordinator.run(DataSummary(3))


def test_a_site_that_is_lost_again_and_again_is_left_out(
    tmp_path: Path, said: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = make(tmp_path, said)
    jobs = iter(range(20))
    seen: list[list[str]] = []

    def run_job(data: DataSummary) -> str:
        seen.append(coordinator._wait_for_sites(Sessions([["a", "b", "c"]])))
        if next(jobs) in (3, 12):
            reach(tmp_path, 7 + len(seen), "a", "b", "c")
        if "b" in seen[-1]:
            raise PartiesReturned(["b"])
        return "result"

    monkeypatch.setattr(coordinator, "_run_job", run_job)
    assert coordinator.run(DataSummary(3)) == "result"
    assert seen == [["a", "b", "c"]] * 8 + [["a", "c"]]
    assert "b was lost 5 times without getting any further: left out\n" in said.getvalue()


class Answering:
    """A federation whose site b answers a greeting in this way."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    def hello(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"a": {"features": 5, "classes": 2}, "b": self.answer}


@pytest.mark.parametrize(
    "answer",
    [
        {"features": 5, "classes": 10**9},
        {"features": 10**12, "classes": 2},
        {"features": 5, "classes": 0},
        {"features": -5, "classes": 2},
        {"features": 5.0, "classes": 2},
        {"features": "5", "classes": 2},
        {"features": True, "classes": 2},
        {"features": [5], "classes": 2},
        {"features": 5},
        {},
        {"features": 5, "classes": 2, "more": 1},
        {"features": "\x1b[2J" * 10_000, "classes": 2},
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_a_site_whose_answer_makes_no_sense_is_refused_by_name(
    tmp_path: Path, said: StringIO, answer: dict[str, Any]
) -> None:
    """One site's classes size everybody's network."""
    with pytest.raises(UserError, match="site b cannot have this graph: ") as caught:
        make(tmp_path, said)._opening(Answering(answer))  # type: ignore[arg-type]
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


def test_files_of_the_server_are_not_sent_to_sites(tmp_path: Path, said: StringIO) -> None:
    settings = {"sampler": "ddpg", "policy": str(tmp_path / "absent.afp")}
    config = check_config({"method": "fedgraph", "partition": "given", "settings": settings})
    layers = sort_settings(config, find_method("fedgraph").Settings)
    (tmp_path / "kits").mkdir()
    folder = RunFolder.create(tmp_path / "fedgraph", {"method": "fedgraph"})
    place = Deployment(tmp_path, tmp_path, ["a", "b"])
    coordinator = Coordinator(config, layers, place, "run", folder, None)
    with pytest.raises(UserError, match="cannot read the policy"):
        coordinator._opening(Greeted(a=(5, 2), b=(5, 2)))  # type: ignore[arg-type]
    layers = replace(layers, method=layers.method.model_copy(update={"policy": ""}))
    coordinator = Coordinator(config, layers, place, "run", folder, None)
    opening = coordinator._opening(Greeted(a=(5, 2), b=(5, 2)))  # type: ignore[arg-type]
    assert not {"policy", "server_graph", "server_share"} & opening["settings"].keys()


class Greeted:
    """A federation whose sites have these shapes."""

    def __init__(self, **shapes: tuple[int, int]) -> None:
        self.shapes = shapes

    def hello(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {n: {"features": f, "classes": c} for n, (f, c) in self.shapes.items()}


def test_sites_must_fit_together(tmp_path: Path, said: StringIO) -> None:
    coordinator = make(tmp_path, said, rounds=7)
    opening = coordinator._opening(Greeted(a=(5, 2), b=(5, 4)))  # type: ignore[arg-type]
    assert opening["classes"] == 4
    assert opening["settings"]["rounds"] == 7
    with pytest.raises(UserError, match="same features: a has 5, b has 6"):
        coordinator._opening(Greeted(a=(5, 2), b=(6, 2)))  # type: ignore[arg-type]


def test_sites_read_their_tables_by_one_schema(tmp_path: Path, said: StringIO) -> None:
    shape = {"features": 5, "classes": 2}
    same = Answering({**shape, "schema": "0" * 16})
    coordinator = make(tmp_path, said)
    assert coordinator._opening(same)["classes"] == 2  # type: ignore[arg-type]

    class Unlike(Answering):
        def hello(self, payload: dict[str, Any]) -> dict[str, Any]:
            return {"a": {**shape, "schema": "1" * 16}, "b": self.answer}

    with pytest.raises(UserError, match=f"different schemas: a has {'1' * 16}, b has 0"):
        coordinator._opening(Unlike(same.answer))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="site b cannot have this graph: "):
        coordinator._opening(Answering({**shape, "schema": "<b>"}))  # type: ignore[arg-type]
