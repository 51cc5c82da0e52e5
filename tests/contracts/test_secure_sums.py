"""The contract of secure sums: every mode passes this suite.

A mode joins by its name in ``autofgl.secure.MODES``. All messages pass the real codec.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "secure"))
from sum_network import SECRET, SumNetwork, draw, exact_sum

from autofgl.errors import UserError
from autofgl.secure import MODES, SecureSumError, make_client, make_server
from autofgl.secure.ckks import FRACTION_BITS as CKKS_BITS
from autofgl.secure.ckks import error_bound
from autofgl.secure.shares.masks import FRACTION_BITS as SHARES_BITS

SECURE = [mode for mode in MODES if mode != "none"]
#: Fraction bits of the exact modes: their sums equal the sums of whole steps, bit for bit.
EXACT = {"ckks": CKKS_BITS, "shares": SHARES_BITS, "shares-additive": SHARES_BITS}

Ready = Callable[..., SumNetwork]


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bound(mode: str, parties: int) -> float:
    if mode == "none":
        return 0.0
    return error_bound(parties, EXACT[mode])


def plain_sum(vectors: dict[str, Any], name: str = "w") -> Any:
    total = np.zeros(np.shape(next(iter(vectors.values()))[name]))
    for own in vectors.values():
        total += own[name]
    return total


def sum_sent_back(mode: str, vectors: dict[str, Any]) -> Any:
    """What parties read: the plain sum, in plain mode as float32 since that is what they sent."""
    total = plain_sum(vectors)
    return total.astype(np.float32) if mode == "none" else total


@pytest.mark.parametrize("count", [2, 3, 7, 50])
def test_the_sum_is_the_plain_sum(mode: str, count: int) -> None:
    network = SumNetwork(mode, count).ready()
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == tuple(network.parties)
    assert total.vectors["w"].dtype == np.float64
    error = np.abs(total.vectors["w"] - plain_sum(vectors)).max()
    assert error <= bound(mode, count) <= 1e-6
    if mode in EXACT:
        assert np.array_equal(total.vectors["w"], exact_sum(vectors, EXACT[mode]))
    assert not network.refusals


@pytest.mark.parametrize("count", [2, 3, 8, 50])
def test_the_parties_read_the_sum_that_the_server_cannot(mode: str, count: int) -> None:
    network = SumNetwork(mode, count).ready()
    vectors = draw(network.parties)
    for sums in network.shared_sum("t", vectors):
        assert sums["w"].dtype == np.float64
        assert np.abs(sums["w"] - sum_sent_back(mode, vectors)).max() <= bound(mode, count)
        if mode in EXACT:
            assert np.array_equal(sums["w"], exact_sum(vectors, EXACT[mode]))


def test_shapes_and_types(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    own = {
        "matrix": np.arange(6, dtype=np.float32).reshape(2, 3),
        "scalar": np.float64(1.5),
        "nothing": np.zeros((0, 4), np.float32),
        "counts": np.array([3, 1, 2], np.int64),
        "cube": np.full((2, 1, 2), -0.25),
        "sliced": np.arange(10, dtype=np.float32)[::2],
    }
    vectors = dict.fromkeys(network.parties, own)
    for sums in (network.sum("a", vectors), network.shared_sum("b", vectors)[0]):
        assert sums.keys() == own.keys()
        for name, array in own.items():
            assert sums[name].shape == np.shape(array)
            assert sums[name].dtype == np.float64
            assert np.array_equal(sums[name], 3 * np.asarray(array, np.float64))


@pytest.mark.parametrize("own", [{}, {"w": np.zeros(0)}])
def test_empty_sums(mode: str, own: dict[str, Any]) -> None:
    network = SumNetwork(mode, 3).ready()
    vectors = dict.fromkeys(network.parties, own)
    for sums in (network.sum("a", vectors), network.shared_sum("b", vectors)[0]):
        assert sums.keys() == own.keys()


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.lists(st.floats(-10, 10, width=32), min_size=5, max_size=5), min_size=2, max_size=5
    )
)
def test_any_values(rows: list[list[float]]) -> None:
    for mode in MODES:
        network = SumNetwork(mode, len(rows)).ready()
        vectors = {
            name: {"w": np.array(row)} for name, row in zip(network.parties, rows, strict=True)
        }
        error = np.abs(network.sum("t", vectors)["w"] - plain_sum(vectors)).max()
        assert error <= bound(mode, len(rows))


def test_a_million_values(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    vectors = draw(network.parties, (1000, 1000))
    error = np.abs(network.sum("t", vectors)["w"] - plain_sum(vectors)).max()
    assert error <= bound(mode, 2)


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, 50])
def test_a_million_values_of_many_parties(mode: str, count: int) -> None:
    network = SumNetwork(mode, count).ready()
    vectors = draw(network.parties, (1_000_003,))
    read = network.sum("a", vectors)["w"]
    assert np.abs(read - plain_sum(vectors)).max() <= bound(mode, count)
    opened = network.shared_sum("b", vectors)[0]["w"]
    assert np.abs(opened - sum_sent_back(mode, vectors)).max() <= bound(mode, count)


def test_many_sums_with_one_set_of_keys(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    for round_ in range(4):
        vectors = draw(network.parties, seed=round_)
        sums = network.sum(f"round-{round_}", vectors)
        assert np.abs(sums["w"] - plain_sum(vectors)).max() <= bound(mode, 3)
        other = network.shared_sum(f"also-{round_}", vectors)[-1]
        assert np.abs(other["w"] - sum_sent_back(mode, vectors)).max() <= bound(mode, 3)


def test_inputs_stay_as_they_are(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    vectors = draw(network.parties)
    copies = {name: own["w"].copy() for name, own in vectors.items()}
    for own in vectors.values():
        own["w"].flags.writeable = False
    network.sum("t", vectors)
    assert all(np.array_equal(copies[name], own["w"]) for name, own in vectors.items())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(mode: str, bad: float) -> None:
    network = SumNetwork(mode, 2).ready()
    with pytest.raises(SecureSumError, match=r"'w' holds NaN or infinite"):
        network.clients["p00"].protect("t", {"v": np.ones(3), "w": np.array([1.0, bad])})


def test_what_is_no_number_is_refused(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    with pytest.raises(SecureSumError, match="cannot be summed"):
        network.clients["p00"].protect("t", {"w": np.array(["text"])})


@pytest.mark.parametrize("value", [1e300, -1e300, 1e8])
@pytest.mark.parametrize("mode", SECURE)
def test_overflow_is_refused(mode: str, value: float) -> None:
    network = SumNetwork(mode, 3).ready()
    for reveal in ("server", "parties"):
        with pytest.raises(SecureSumError, match="would overflow: the limit is"):
            network.clients["p00"].protect(reveal, {"w": np.array([0, value])}, reveal=reveal)


def test_plain_overflow_is_refused() -> None:
    network = SumNetwork("none", 2).ready()
    vectors = {name: {"w": np.array([1.7e308])} for name in network.parties}
    with pytest.raises(SecureSumError, match="overflows"):
        network.sum("t", vectors)


@pytest.mark.parametrize("mode", SECURE)
def test_the_largest_values_do_not_wrap(mode: str) -> None:
    network = SumNetwork(mode, 3, fraction_bits=20).ready()
    for reveal in ("server", "parties"):
        with pytest.raises(SecureSumError) as caught:
            network.clients["p00"].protect("probe", {"w": np.array([1e300])}, reveal=reveal)
        limit = float(str(caught.value).split("the limit is ")[1].split()[0])
        value = np.array([limit, -limit]) * (1 - 1e-8)
        vectors = {name: {"w": value} for name in network.parties}
        if reveal == "server":
            sums = network.sum("at-limit", vectors)
        else:
            sums = network.shared_sum("at-limit-too", vectors)[0]
        assert np.abs(sums["w"] - 3 * value).max() <= 3 * 2.0**-21 + 1e-9 * limit


def test_different_shapes_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    vectors = draw(network.parties)
    vectors["p02"] = {"w": np.zeros((4, 10))}
    with pytest.raises(SecureSumError, match=r"p00 and p02 differ: 'w' has shape \(40,\)"):
        network.sum("t", vectors)


def test_different_names_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    vectors = draw(network.parties)
    vectors["p01"]["extra"] = np.zeros(2)
    with pytest.raises(SecureSumError, match="only one of them has 'extra'"):
        network.sum("t", vectors)


def test_who_may_read_is_the_contributors_choice(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    vectors = draw(network.parties)
    for_parties = network.contribute("a", vectors, "parties")
    with pytest.raises(SecureSumError, match="for the parties to read"):
        network.server.total("a", for_parties, network.ask)
    for_server = network.contribute("b", vectors, "server")
    with pytest.raises(SecureSumError, match="for the server to read"):
        network.server.seal("b", for_server, network.ask)


def test_nobody_else_may_read(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    with pytest.raises(SecureSumError, match="for 'server' or 'parties', not for 'all'"):
        network.contribute("a", draw(network.parties), "all")  # type: ignore[arg-type]


def test_contributions_to_another_sum_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    vectors = draw(network.parties)
    old = network.contribute("old", vectors)
    mixed = {**network.contribute("new", vectors), "p01": old["p01"]}
    with pytest.raises(SecureSumError, match="made for 'old'"):
        network.server.total("new", mixed, network.ask)


def test_strangers_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    contributions = network.contribute("t", draw(network.parties))
    contributions["mallory"] = contributions["p00"]
    with pytest.raises(SecureSumError, match="mallory"):
        network.server.total("t", contributions, network.ask)


@pytest.mark.parametrize("mode", SECURE)
def test_too_few_contributions_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    network.lost_at = {"p01": "protect", "p02": "protect"}
    with pytest.raises(SecureSumError, match="needs contributions of"):
        network.sum("t", draw(network.parties))


@pytest.mark.parametrize("mode", SECURE)
def test_a_tag_is_used_once(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    network.sum("t", draw(network.parties))
    with pytest.raises(SecureSumError, match="used the tag 't' before"):
        network.clients["p00"].protect("t", {"w": np.ones(1)})


@pytest.mark.parametrize("mode", SECURE)
def test_nothing_works_without_keys(mode: str) -> None:
    network = SumNetwork(mode, 2)
    with pytest.raises(SecureSumError, match="has to set up first"):
        network.clients["p00"].protect("t", {"w": np.ones(1)})


@pytest.mark.parametrize("mode", SECURE)
def test_a_resumed_run_sets_up_again(mode: str) -> None:
    network = SumNetwork(mode, 3).ready()
    vectors = draw(network.parties)
    stale = network.contribute("t", vectors)
    network.ready()
    with pytest.raises(SecureSumError, match="other keys"):
        network.server.total("t", stale, network.ask)
    assert np.abs(network.sum("t", vectors)["w"] - plain_sum(vectors)).max() <= bound(mode, 3)


@pytest.mark.parametrize("mode", SECURE)
def test_malformed_contributions_are_refused(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    good = network.contribute("t", draw(network.parties))
    for key in good["p00"]:
        for wrong in (None, [], 7, b"x", np.zeros(3)):
            broken = {name: value for name, value in good["p00"].items() if name != key}
            if wrong is not None:
                broken[key] = wrong
            with pytest.raises(SecureSumError):
                network.server.total("t", {**good, "p00": broken}, network.ask)


@pytest.mark.parametrize("mode", SECURE)
def test_unknown_phases_are_refused(mode: str) -> None:
    with pytest.raises(SecureSumError, match="no phase 'state'"):
        SumNetwork(mode, 2).clients["p00"].handle("state", {})


def test_unknown_modes_are_named() -> None:
    with pytest.raises(UserError, match="unknown secure mode 'ckk': did you mean ckks"):
        make_client("ckk", name="a", parties=["a", "b"])
    with pytest.raises(UserError, match="unknown secure mode"):
        make_server("paillier", parties=["a", "b"])


@pytest.mark.parametrize("mode", SECURE)
def test_bad_settings_are_named(mode: str) -> None:
    for wrong in (
        {"parties": ["a"]},
        {"parties": ["a", "a"]},
        {"parties": ["a", "b"], "threshold": 3},
        {"parties": ["a", "b"], "threshold": 1},
        {"parties": ["a", "b"], "fraction_bits": 0},
        {"parties": ["a", "b"], "fraction_bits": 60},
    ):
        with pytest.raises(UserError):
            make_client(mode, name="a", **wrong)
    with pytest.raises(UserError, match="not one of the parties"):
        make_client(mode, name="z", parties=["a", "b"])


@pytest.mark.parametrize("mode", SECURE)
def test_nothing_shows_a_secret(mode: str) -> None:
    network = SumNetwork(mode, 2).ready()
    network.sum("t", draw(network.parties))
    client = network.clients["p00"]
    for shown in (repr(client), repr(client._ring)):  # type: ignore[attr-defined]
        assert SECRET.decode() not in shown
        assert "b'" not in shown
    assert not hasattr(client, "state")
