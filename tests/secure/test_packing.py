"""Several small numbers in one integer: sums of such integers are the sums, exactly."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork

from autofgl.secure import MODES, SecureSumError, StepGrid
from autofgl.secure.packing import Packing, multiples_of

KEYED = [mode for mode in MODES if mode != "none"]


@given(
    word=st.integers(40, 64),
    parties=st.integers(1, 60),
    least=st.sampled_from([1, 20, 2047, 1 << 20]),
    size=st.integers(0, 40),
    extreme=st.booleans(),
    seed=st.integers(0, 99),
)
def test_digits_add_up_without_a_carry(
    word: int, parties: int, least: int, size: int, extreme: bool, seed: int
) -> None:
    packing = Packing.of(word, parties, least)
    assert packing.most >= least
    assert parties * packing.most < 1 << (packing.bits - 1)
    rng = np.random.default_rng(seed)
    ends = np.array([-packing.most, packing.most])
    own = [
        rng.choice(ends, size) if extreme else rng.integers(*ends, size, endpoint=True)
        for _ in range(parties)
    ]
    packed = [packing.pack(one) for one in own]
    assert all(one.size == packing.size(size) == -(-size // packing.digits) for one in packed)
    total = np.sum(packed, axis=0, dtype=np.int64)
    assert all(abs(int(one)) < 1 << (word - 1) for one in total)  # no integer wraps around either
    assert np.array_equal(packing.unpack(total, size), np.sum(own, axis=0))


def test_one_more_than_the_most_would_be_carried() -> None:
    packing = Packing(64, 8, 3)
    assert packing.most == 42
    over = packing.pack(np.array([43, 0, 0, 0, 0, 0, 0, 0, 0]))  # digits of 9 values: 2 integers
    assert packing.unpack(3 * over, 9)[0] != 129


def test_values_beyond_the_grid_are_refused() -> None:
    grid = StepGrid(8, {"w": 0.5})
    assert multiples_of({"w": np.array([21.0, -20.9]), "b": np.ones(1)}, grid, 42).tolist() == [
        42, -42,
    ]  # fmt: skip
    for bad in (22.0, np.nan, np.inf):
        with pytest.raises(SecureSumError, match="'w' holds values beyond 42 steps"):
            multiples_of({"w": np.array([bad])}, grid, 42)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("least", [20, 2047, 1 << 20])
def test_sums_on_a_grid_are_exact_at_the_ends_too(mode: str, count: int, least: int) -> None:
    network = SumNetwork(mode, count).ready()
    step, rng = 0.25, np.random.default_rng(0)
    for tag, reveal in (("a", "server"), ("b", "parties")):
        packing = network.clients["p00"].packing(least, reveal)
        grid = StepGrid(packing.bits, {"w": step})
        most = packing.most
        own = {n: rng.choice([-most, most, 0, 1], (700, 2)) for n in network.parties}
        own["p00"][:] = np.sign(own["p01"]) * most  # some sums reach the ends
        vectors = {n: {"w": step * own[n], "share": np.array(0.125)} for n in network.parties}
        sent = {
            n: network.clients[n].protect(tag, vectors[n], reveal=reveal, grid=grid)
            for n in network.parties
        }
        if reveal == "server":
            found = [network.server.total(tag, sent, network.ask).vectors]
        else:
            sealed = network.server.seal(tag, sent, network.ask)
            found = [client.open(sealed, grid) for client in network.clients.values()]
        for sums in found:
            assert np.array_equal(sums["w"], step * np.sum(list(own.values()), axis=0))
            assert sums["share"] == 0.125 * count


@pytest.mark.parametrize("mode", KEYED)
def test_the_server_is_not_told_the_steps_of_a_sum_for_the_parties(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    client = network.clients["p00"]
    vectors, grid = {"w": np.ones(300) * 0.123}, StepGrid(8, {"w": 0.123})
    sent = client.protect("t", vectors, reveal="parties", grid=grid)
    assert sent["steps"] == {"w": 1.0}
    assert client.protect("u", vectors, grid=grid)["steps"] == {"w": 0.123}


@pytest.mark.parametrize("mode", MODES)
def test_other_grids_than_most_have_are_wrong(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    grids = [StepGrid(8, {"w": 0.5}), StepGrid(8, {"w": 0.5}), StepGrid(9, {"w": 0.5})]
    sent = {
        name: network.clients[name].protect("t", {"w": np.ones(9)}, grid=grid)
        for name, grid in zip(network.parties, grids, strict=True)
    }
    with pytest.raises(SecureSumError, match="differ in fraction bits or steps"):
        network.server.total("t", sent, network.ask)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "bad", [{"bits": 1}, {"bits": 99}, {"steps": {"v": 1.0}}, {"steps": {"w": 0.0}}, {"steps": 3}]
)
def test_malformed_grids_are_refused(mode: str, bad: dict[str, object]) -> None:
    network = SumNetwork(mode, 3).ready()
    sent = {
        name: {**client.protect("t", {"w": np.ones(9)}, grid=StepGrid(8, {"w": 0.5})), **bad}
        for name, client in network.clients.items()
    }
    with pytest.raises(SecureSumError):
        network.server.total("t", sent, network.ask)


def test_a_plain_contribution_beyond_its_digits_is_noticed() -> None:
    network = SumNetwork("none", 3).ready()
    client = network.clients["p00"]
    sent = client.protect("t", {"w": np.ones(20)}, grid=StepGrid(8, {"w": 0.5}))
    forged = {**sent, "packed": Packing(64, 8, 1).pack(np.full(20, 43))}
    unfit = network.server.unfit("t", "server", {"p00": forged, "p01": sent})  # type: ignore[attr-defined]
    assert unfit.keys() == {"p00"}
    assert "more than 42 steps" in unfit["p00"]


@pytest.mark.parametrize(("mode", "bytes_a_value"), [("none", 1.0), ("shares", 1.0), ("ckks", 1.5)])
def test_a_byte_a_value(mode: str, bytes_a_value: float) -> None:
    network = SumNetwork(mode, 3).ready()
    client = network.clients["p00"]
    packing = client.packing(20, "parties")
    sent = client.protect(
        "t", {"w": np.zeros(98_000)}, reveal="parties", grid=StepGrid(packing.bits, {"w": 1.0})
    )
    sizes = [
        len(part) if isinstance(part, bytes) else part.nbytes
        for part in (*sent.get("ciphertexts", []), sent.get("words"), sent.get("packed"))
        if part is not None
    ]
    assert sum(sizes) <= bytes_a_value * 98_000
