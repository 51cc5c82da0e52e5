"""The small parts: sharing secrets, masks, fixed point, layouts."""

import sys
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork

from autofgl.secure import SecureSumError, select, shamir, spread
from autofgl.secure.fixed_point import FixedPoint
from autofgl.secure.messages import frame
from autofgl.secure.stream import add_stream, subtract_stream
from autofgl.secure.vectors import Layout, flatten


@given(st.integers(2, 9), st.data())
def test_any_threshold_of_shares_gives_the_secret(count: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(2, count))
    secret = shamir.random_secret()
    shares = dict(enumerate(shamir.split(secret, threshold, count), 1))
    points = data.draw(st.permutations(list(shares)))[:threshold]
    parts = {point: shares[point] for point in points}
    assert shamir.combine(parts, shamir.weights(points)) == secret
    fewer = points[1:]
    parts = {point: shares[point] for point in fewer}
    assert shamir.combine(parts, shamir.weights(fewer)) != secret


def test_fewer_shares_fit_every_secret() -> None:
    """Two of three shares say nothing: some third share leads to any secret."""
    one, two, _ = shamir.split(shamir.random_secret(), 3, 3)
    weight = shamir.weights([1, 2, 3])
    wanted = shamir.random_secret()
    known = shamir.combine({1: one, 2: two}, weight)
    missing = int.from_bytes(wanted, "little") - int.from_bytes(known, "little")
    third = missing * pow(weight[3], -1, shamir.PRIME) % shamir.PRIME
    shares = {1: one, 2: two, 3: third.to_bytes(32, "little")}
    assert shamir.combine(shares, weight) == wanted


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), b"\xff" * 32])
def test_malformed_shares_are_refused(bad: bytes) -> None:
    with pytest.raises(SecureSumError, match="malformed share"):
        shamir.combine({1: bad}, {1: 1})


@pytest.mark.parametrize("size", [0, 1, 1000, 40_000, 100_001])
def test_masks_are_the_chacha20_stream(size: int) -> None:
    key = bytes(range(32))
    stream = Cipher(ChaCha20(key, bytes(16)), None).encryptor().update(bytes(8 * size))
    words = np.arange(size, dtype=np.uint64)
    add_stream(words, key)
    assert np.array_equal(words, np.arange(size, dtype=np.uint64) + np.frombuffer(stream, "<u8"))
    subtract_stream(words, key)
    assert np.array_equal(words, np.arange(size))


@given(st.lists(st.floats(-1000, 1000), max_size=20), st.integers(1, 40))
def test_fixed_point_rounds_by_half_a_step(values: list[float], bits: int) -> None:
    fixed = FixedPoint(bits, 2**63 - 1, 3)
    given_values = np.array(values, np.float64)
    back = fixed.decode(fixed.encode(given_values))
    assert np.all(np.abs(back - given_values) <= 2.0 ** -(bits + 1))
    assert fixed.error_bound == pytest.approx(3 * 2.0 ** -(bits + 1))


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
    assert layout.names == ("a", "b", "c")
    assert flat.tolist() == [2, 1, 1, 1, 1, 1, 1]
    assert Layout.from_payload(layout.to_payload()) == layout
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
    kept = select(full, support)
    assert {name: array.size for name, array in kept.items()} == {"w": 2000, "u": 3}
    sent = network.contribute("t", dict.fromkeys(network.parties, kept))
    assert len(sent["p00"]["ciphertexts"]) == 1
    sums = spread(network.server.total("t", sent, network.ask).vectors, support)
    assert all(np.array_equal(sums[name], 3 * full[name]) for name in full)


def test_values_outside_the_support_are_refused() -> None:
    with pytest.raises(SecureSumError, match="not zero outside its support"):
        select({"w": np.ones(3)}, {"w": np.array([True, False, True])})
    with pytest.raises(SecureSumError, match="should be boolean"):
        select({"w": np.ones(3)}, {"w": np.array([True])})


def test_frames_are_unambiguous() -> None:
    assert frame("ab", "c") != frame("a", "bc")
    assert frame("a", "") != frame("a")
