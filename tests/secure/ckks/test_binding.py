"""Masks that bind a ciphertext to its sum: exact for the very contributors, noise for others."""

import hashlib
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.secure import SecureSumError
from autofgl.secure.ckks.sums import SumMasks

PARTIES = 5


def masks(tag: str = "t", bits: int = 42) -> SumMasks:
    return SumMasks(lambda purpose: hashlib.sha256(f"{tag} {purpose}".encode()).digest(), bits)


def vectors(size: int = 30) -> np.ndarray:
    return np.random.default_rng(1).integers(-(10**9), 10**9, (PARTIES, size))


@pytest.mark.parametrize("bits", [30, 42, 47])
def test_any_set_of_contributors_gives_its_sum(bits: int) -> None:
    own = vectors() >> 8
    sent = [masks(bits=bits).mask(row, position) for position, row in enumerate(own)]
    assert all(np.abs(row).max() <= 1 << (bits - 1) for row in sent)
    for count in range(1, PARTIES + 1):
        for chosen in itertools.combinations(range(PARTIES), count):
            total = np.sum([sent[position] for position in chosen], axis=0)
            assert np.array_equal(
                masks(bits=bits).unmask(total, chosen), own[list(chosen)].sum(axis=0)
            )


@given(
    counts=st.lists(st.integers(-2, 3), min_size=PARTIES, max_size=PARTIES),
    claimed=st.sets(st.integers(0, PARTIES - 1), min_size=1),
)
def test_no_other_combination_passes(counts: list[int], claimed: set[int]) -> None:
    """A server can add ciphertexts several times, or subtract them; only the claimed sum opens."""
    sent = np.array([masks().mask(row, position) for position, row in enumerate(vectors())])
    total = (np.array(counts)[:, None] * sent).sum(axis=0)
    if counts == [position in claimed for position in range(PARTIES)]:
        masks().unmask(total, claimed)
    else:
        with pytest.raises(SecureSumError, match="is not the sum of these contributors"):
            masks().unmask(total, claimed)


def test_another_sum_leaves_noise_only() -> None:
    """Also of vectors that are all zeros: nothing of them can be told from what remains."""
    zeros = np.zeros((PARTIES, 100_000), np.int64)
    total = np.sum([masks().mask(row, position) for position, row in enumerate(zeros)], axis=0)
    open_masks = masks("another")
    with pytest.raises(SecureSumError):
        open_masks.unmask(total, range(PARTIES))
    residue = open_masks._centered(total[:-1].view(np.uint64))
    assert abs(residue.std() / (2**42 / 12**0.5) - 1) < 0.01
    assert abs(np.corrcoef(residue[1:], residue[:-1])[0, 1]) < 0.02


def test_the_masks_of_parties_are_independent() -> None:
    """They share streams with their neighbors; together they are as good as drawn singly."""
    zeros = np.zeros(50_000, np.int64)
    drawn = np.array([masks().mask(zeros, position) for position in range(PARTIES)], np.float64)
    correlation = np.corrcoef(drawn) - np.eye(PARTIES)
    for first in range(PARTIES - 1):  # neighbors share a stream, but wrap around
        assert abs(correlation[first, first + 1]) < 0.02
    assert np.abs(correlation).max() < 0.02


def test_an_altered_sum_is_noticed() -> None:
    own = vectors()
    total = np.sum([masks().mask(row, position) for position, row in enumerate(own)], axis=0)
    for place in range(total.size):
        altered = total.copy()
        altered[place] += 1
        with pytest.raises(SecureSumError):
            masks().unmask(altered, range(PARTIES))
