"""Every method of the catalog goes on from a checkpoint as if nothing had happened."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import METHODS
from autofgl.runs import checkpoint
from autofgl.runtime.method import Method
from autofgl.runtime.outcome import Outcome
from families import family
from federations import make, rounds, to_the_end

SMALL_SEARCH: dict[str, str | float] = {"generations": 3, "population": 6, "layers": 2, "warmup": 1}
SMALL_SEARCH |= {"weight_steps": 2, "trials": 4, "trial_rounds": 1, "finalists": 2}
SMALL_SEARCH |= {"tune": 2}
SMALL_TRIALS: dict[str, str | float] = {"candidates": 3, "candidate_rounds": 2, "layers": 2}
SMALL_TRIALS |= {"finalists": 2, "tune": 2}
SMALL_GA: dict[str, str | float] = {"population": 3, "iterations": 2, "inner_steps": 1}
SMALL_GA |= {
    "adapt_steps": 1,
    "hidden": 4,
    "participation": 0.5,
    "new_clients": 1,
    "structure_after": 2,
}
SMALL: dict[str, dict[str, str | float]] = {
    "fl-agcns": SMALL_SEARCH,
    "fl-random": SMALL_TRIALS,
    "fl-rl": SMALL_TRIALS,
    "fl-darts": {"generations": 3, "layers": 2, "weight_steps": 2, "hidden": 8, "trials": 3}
    | {"trial_rounds": 4, "tune": 2, "finalists": 2},
    "sfgnn": {"collect_models": True, "chosen_by": "client"},
    "asfgnn": {
        "trials": 2,
        "trial_rounds": 2,
        "startup": 1,
        "collect_models": True,
        "joint": False,
        "tune_hidden": "8",
        "tune_dropout": "",
    },
    "graphfl": {"inner_steps": 2, "adapt_steps": 2, "participation": 0.5, "new_clients": 1},
    "graphfl-ga": SMALL_GA,
    "auto": {"recipes": 4, "trial_rounds": 2, "tune": 2, "trials": 2, "finalists": 1},
}

CASES: list[tuple[str, dict[str, str | float]]] = [(name, SMALL.get(name, {})) for name in METHODS]
CASES += [("sfgnn", {**SMALL["sfgnn"], "common": True, "common_layers": 1})]
CASES += [("asfgnn", {**SMALL["asfgnn"], "searcher": "local", "tune_hidden": "4,8"})]
CASES += [("fedavg", {"aggregate": "parameters"}), ("fedavg", {"participation": 0.5})]
ACROSS: dict[str, str | float] = {"sharing": "across", "refresh": 2}
CASES += [("fedavg", ACROSS), ("fedavg", {**ACROSS, "aggregate": "parameters"})]
CASES += [("fl-random", {**SMALL_TRIALS, "sharing": "across"})]
CASES += [("graphfl-ga", {**SMALL_GA, "mode": "threshold", "threshold": 1.0})]
CASES += [("graphfl-ga", {**SMALL_GA, "mode": "parallel", "adopt_after": 2})]
BATCHES: dict[str, str | float] = {"batch": 8, "fanout": "3,2"}
CASES += [("fedavg", {**BATCHES, "aggregate": "parameters"}), ("fedavg", BATCHES)]
CASES += [(name, {**SMALL.get(name, {}), **BATCHES}) for name in ("separate", "sfgnn", "fl-random")]
CASES += [("fl-agcns", {**SMALL_SEARCH, **BATCHES, "val_sample": 5})]
LEARNED: dict[str, str | float] = {"sampler": "ddpg", "profile_rounds": 3, "episodes": 2}
CASES += [("fedgraph", {**LEARNED, "episode_rounds": 2, "iterations": 2})]
RARE: dict[str, str | float] = {"objective": "auroc", "class_weight": "balanced"}
JUDGED = ("fedavg", "separate", "fedgraph", "sfgnn", "fl-agcns", "graphfl-ga")
CASES += [(name, {**SMALL.get(name, {}), **RARE}) for name in JUDGED]
#: Left to `make test-all`: `auto` has tests of its own.
LONG = ("fl-darts", "fl-rl", "auto")
#: A method of each kind, and what of a state no method's own case has: batches, a learned sampler,
#: figures.
FAST = [(name, SMALL.get(name, {})) for name in METHODS if name not in LONG]
FAST += [("fedavg", {"aggregate": "parameters"}), ("fedavg", {"participation": 0.5})]
FAST += [("fedavg", BATCHES), ("fedgraph", {**LEARNED, "episode_rounds": 2, "iterations": 2})]
FAST += [("fedavg", RARE), ("fedavg", ACROSS)]


def finish(method: Method) -> Outcome:
    to_the_end(method)
    outcome = method.finish()
    method.federation.close()
    return outcome


@pytest.mark.parametrize(("name", "settings"), family(CASES, FAST))
def test_resumed_equals_undisturbed(
    name: str,
    settings: dict[str, str | float],
    small_clients: list[ClientGraph],
    tmp_path: Path,
) -> None:
    """One run is saved on its way, and goes on from every checkpoint as from the others."""
    undisturbed = make(name, small_clients, rounds=8, **settings)
    undisturbed.setup()
    expected = finish(undisturbed)

    folder, copies = tmp_path / "run", {at: tmp_path / f"after {at}" for at in (1, 4, 8)}
    first = make(name, small_clients, rounds=8, folder=folder, **settings)
    first.setup()
    while first.round <= max(copies):
        first.step()  # the last one is lost
        if first.round in copies:
            checkpoint.save(folder, first.round, {"method": first.state()}, first.federation)
            shutil.copytree(folder, copies[first.round])
        if first.done:
            break
    first.federation.close()

    for at, copy in copies.items():
        second = make(name, small_clients, rounds=8, folder=copy, **settings)
        second.load_state(checkpoint.load_latest(copy, second.federation)["method"])
        assert second.round == at
        found = finish(second)

        assert found.test_accuracy == expected.test_accuracy
        assert found.extra == expected.extra
        for model, weights in expected.models.items():
            for key, value in weights.items():
                assert np.array_equal(found.models[model][key], value)
        if name != "fedgraph":  # peers are asked again for what they were asked for before
            assert second.federation.meter.state() == undisturbed.federation.meter.state()


def test_the_two_newest_checkpoints_are_kept(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    method = make("fedavg", small_clients, rounds=5, folder=tmp_path)
    method.setup()
    for _ in range(4):
        method.step()
        checkpoint.save(tmp_path, method.round, {"method": method.state()}, method.federation)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["round-00000003", "round-00000004"]


def test_a_checkpoint_without_its_server_file_does_not_count(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    method = make("fedavg", small_clients, rounds=5, folder=tmp_path)
    rounds(method, 1)
    checkpoint.save(tmp_path, 1, {"method": method.state()}, method.federation)
    method.step()
    method.federation.checkpoint("round-00000002")  # killed before the server's file was written
    state = checkpoint.load_latest(tmp_path, method.federation)
    assert state["method"]["round"] == 1
