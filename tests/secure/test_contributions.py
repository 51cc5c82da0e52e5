"""Contributions: layouts, fixed point."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.secure import SecureSumError
from autofgl.secure.contributions import FixedPoint, Header, Layout, flatten


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
