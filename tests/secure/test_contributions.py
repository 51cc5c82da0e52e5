"""Contributions: layouts, known zeros, fixed point."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork

from autofgl.secure import SecureSumError
from autofgl.secure.contributions import (
    FixedPoint,
    Header,
    Layout,
    drop_zeros,
    flatten,
    restore_zeros,
)


@given(st.lists(st.floats(-1000, 1000), max_size=20), st.integers(1, 40))
def test_fixed_point_rounds_by_half_a_step(values: list[float], bits: int) -> None:
    fixed = FixedPoint(bits, 2**63 - 1, 3)
    given_values = np.array(values, np.float64)
    back = fixed.decode(fixed.encode(given_values))
    assert np.all(np.abs(back - given_values) <= 2.0 ** -(bits + 1))


@pytest.mark.parametrize("parties", [1, 2, 3, 7, 50])
def test_the_limit_is_tight(parties: int) -> None:
    fixed = FixedPoint(10, 2**40, parties)
    limit = (2**40 // parties) / 2**10
    for sign in (1, -1):
        assert abs(int(fixed.encode(np.array([sign * limit]))[0])) * parties <= 2**40
        with pytest.raises(SecureSumError, match="would overflow"):
            fixed.encode(np.array([sign * (limit + 2**-10)]))


def test_the_limit_holds_where_doubles_are_coarse() -> None:
    fixed = FixedPoint(40, 2**63 - 1, 3)
    value = fixed.limit
    while True:
        try:
            encoded = int(fixed.encode(np.array([value]))[0])
            break
        except SecureSumError:
            value = np.nextafter(value, 0)
    assert 3 * encoded <= 2**63 - 1
    assert encoded > 2**61


def test_flat_vectors_come_apart_again() -> None:
    own = {"b": np.ones((2, 3)), "a": np.float32(2), "c": np.zeros((0, 5))}
    layout, flat = flatten(own)
    assert list(layout) == ["a", "b", "c"]
    assert flat.tolist() == [2, 1, 1, 1, 1, 1, 1]
    header = Header("t", b"", "server", 0, layout)
    assert Header.from_payload(header.to_payload()) == header
    assert {name: part.shape for name, part in layout.split(flat).items()} == {
        "a": (),
        "b": (2, 3),
        "c": (0, 5),
    }


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"names": ["a"], "shapes": []},
        {"names": ["a", "a"], "shapes": [[1], [1]]},
        {"names": ["b", "a"], "shapes": [[1], [1]]},
        {"names": ["a"], "shapes": [[-1]]},
        {"names": ["a"], "shapes": [[1.5]]},
        {"names": ["a"], "shapes": [7]},
        {"names": [3], "shapes": [[1]]},
        {"names": ["a"], "shapes": [[1 << 20, 1 << 20]]},
    ],
)
def test_malformed_layouts_are_refused(message: dict[str, object]) -> None:
    with pytest.raises(SecureSumError):
        Layout.from_payload(message)


def test_known_zeros_do_not_travel() -> None:
    network = SumNetwork("ckks", 3).ready()
    support = {"w": np.arange(20_000) % 10 == 0, "v": np.zeros((2, 2), bool)}
    full = {"w": np.where(support["w"], 1.5, 0.0), "v": np.zeros((2, 2)), "u": np.ones(3)}
    kept = drop_zeros(full, support)
    assert {name: array.size for name, array in kept.items()} == {"w": 2000, "u": 3}
    sent = network.contribute("t", dict.fromkeys(network.parties, kept))
    assert len(sent["p00"]["ciphertexts"]) == 1
    sums = restore_zeros(network.server.total("t", sent, network.ask).vectors, support)
    assert all(np.array_equal(sums[name], 3 * full[name]) for name in full)


def test_values_outside_the_support_are_refused() -> None:
    with pytest.raises(SecureSumError, match="not zero outside its support"):
        drop_zeros({"w": np.ones(3)}, {"w": np.array([True, False, True])})
    with pytest.raises(SecureSumError, match="should be boolean"):
        drop_zeros({"w": np.ones(3)}, {"w": np.array([True])})
