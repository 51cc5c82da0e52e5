"""Masked sums' parts: sharing secrets, and masks."""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from hypothesis import given
from hypothesis import strategies as st

from autofgl.secure import SecureSumError
from autofgl.secure.shares import masks


@given(st.integers(2, 9), st.data())
def test_any_threshold_of_shares_gives_the_secret(count: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(2, count))
    secret = masks.random_secret()
    shares = dict(enumerate(masks.split_secret(secret, threshold, count), 1))
    points = data.draw(st.permutations(list(shares)))[:threshold]
    parts = {point: shares[point] for point in points}
    assert masks.combine_shares(parts, masks.lagrange_weights(points)) == secret
    fewer = points[1:]
    parts = {point: shares[point] for point in fewer}
    assert masks.combine_shares(parts, masks.lagrange_weights(fewer)) != secret


def test_fewer_shares_fit_every_secret() -> None:
    """Two of three shares say nothing: some third share leads to any secret."""
    one, two, _ = masks.split_secret(masks.random_secret(), 3, 3)
    weight = masks.lagrange_weights([1, 2, 3])
    wanted = masks.random_secret()
    partial = masks.combine_shares({1: one, 2: two}, weight)
    missing = int.from_bytes(wanted, "little") - int.from_bytes(partial, "little")
    third = missing * pow(weight[3], -1, masks.PRIME) % masks.PRIME
    shares = {1: one, 2: two, 3: third.to_bytes(32, "little")}
    assert masks.combine_shares(shares, weight) == wanted


@pytest.mark.parametrize("bad", [b"", bytes(31), bytes(33), b"\xff" * 32])
def test_malformed_shares_are_refused(bad: bytes) -> None:
    with pytest.raises(SecureSumError, match="malformed share"):
        masks.combine_shares({1: bad}, {1: 1})


@pytest.mark.parametrize("size", [0, 1, 1000, 40_000, 100_001])
def test_masks_are_the_stream_of_aes_in_counter_mode(size: int) -> None:
    key = bytes(range(32))
    stream = Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(8 * size))
    words = np.arange(size, dtype=np.uint64)
    masks.add_stream(words, key)
    assert np.array_equal(words, np.arange(size, dtype=np.uint64) + np.frombuffer(stream, "<u8"))
    masks.subtract_stream(words, key)
    assert np.array_equal(words, np.arange(size))
