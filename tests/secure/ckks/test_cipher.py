"""CKKS: exact within its noise, and nothing of another key, damaged or foreign gets through."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import tenseal
import tenseal.sealapi as sealapi

from autofgl.errors import UserError
from autofgl.secure import SecureSumError, ckks
from autofgl.secure.ckks import cipher as cipher_module
from autofgl.secure.ckks.cipher import SEED_BYTES, Adder, Cipher

SIZE = 3 * ckks.DEGREE - 5


@pytest.fixture(scope="module")
def seed() -> bytes:
    return os.urandom(SEED_BYTES)


@pytest.mark.parametrize("parties", [2, 3, 50])
def test_sums_of_masked_values_are_exact(seed: bytes, parties: int) -> None:
    generator = np.random.default_rng(parties)
    half = 1 << (ckks.mask_bits(parties) - 1)
    cipher = Cipher(seed, parties)
    rows = [generator.integers(-half, half, SIZE) for _ in range(parties)]
    summed = Adder(parties).add([cipher.encrypt(row) for row in rows], SIZE)
    assert np.array_equal(cipher.decrypt(summed, SIZE), np.sum(rows, axis=0))


@pytest.mark.parametrize("parties", [1, 4, 25])
def test_the_noise_is_as_derived(seed: bytes, parties: int) -> None:
    cipher = Cipher(seed, parties)
    zeros = np.zeros(8 * ckks.DEGREE, np.int64)
    summed = Adder(parties).add([cipher.encrypt(zeros) for _ in range(parties)], zeros.size)
    with cipher_module._Scratch() as scratch:
        slots = [
            cipher._decrypt(cipher_module._load(data, float(ckks.grid_step(parties)), scratch))
            for data in summed
        ]
    noise = np.concatenate([np.real(slots), np.imag(slots)]) * ckks.grid_step(parties)
    assert 0.9 < noise.std() / ckks.noise_deviation(parties) < 1.05
    assert np.abs(noise).max() < 0.6 * ckks.noise_bound(parties)


def test_the_grid_leaves_room_for_the_noise() -> None:
    for parties in (*range(2, 51), 100, 300):
        room = ckks.grid_step(parties) / 2 - ckks.noise_bound(parties)
        assert room >= 2 * ckks.noise_deviation(parties)
        assert ckks.error_bound(parties) <= 1e-6
        largest = ckks.capacity(parties) / parties / 2**ckks.FRACTION_BITS
        assert largest > (100 if parties <= 50 else 1)
        masked = 2.0 ** ckks.mask_bits(parties) * (parties / 12) ** 0.5
        coefficient = ckks.grid_step(parties) * masked * (2 / ckks.DEGREE) ** 0.5
        assert 18 * coefficient + ckks.noise_bound(parties) < 2 ** (ckks.MODULUS_BITS - 1)


def test_the_parameters_have_more_than_128_bits_of_security() -> None:
    for level in (sealapi.SEC_LEVEL_TYPE.TC128, sealapi.SEC_LEVEL_TYPE.TC256):
        most = sealapi.CoeffModulus.MaxBitCount(ckks.DEGREE, level)
        assert most >= ckks.MODULUS_BITS


def test_two_values_fill_a_slot_and_fresh_ciphertexts_are_half() -> None:
    cipher = Cipher(os.urandom(SEED_BYTES), 2)
    data = cipher.encrypt(np.arange(100 * ckks.DEGREE))
    assert len(data) == 100
    assert sum(map(len, data)) / (100 * ckks.DEGREE) < 8.1


def test_a_seed_stands_for_one_key(seed: bytes) -> None:
    integers = np.arange(10)
    assert np.array_equal(Cipher(seed, 2).decrypt(Cipher(seed, 2).encrypt(integers), 10), integers)
    assert Cipher(seed, 2).encrypt(integers) != Cipher(seed, 2).encrypt(integers)


@pytest.mark.parametrize("size", [1, 100, ckks.DEGREE])
def test_ciphertexts_of_another_key_are_refused(seed: bytes, size: int) -> None:
    integers = np.arange(size)
    own, other = Cipher(seed, 2), Cipher(os.urandom(SEED_BYTES), 2)
    with pytest.raises(SecureSumError, match="damaged or of another key"):
        own.decrypt(other.encrypt(integers), size)
    mixed = Adder(2).add([own.encrypt(integers), other.encrypt(integers)], size)
    for cipher in (own, other):
        with pytest.raises(SecureSumError, match="damaged or of another key"):
            cipher.decrypt(mixed, size)


def test_damaged_ciphertexts_are_refused(seed: bytes) -> None:
    cipher = Cipher(seed, 2)
    fresh = cipher.encrypt(np.arange(5))[0]
    generator = np.random.default_rng(0)
    broken = [b"", b"garbage", fresh[:16], fresh[:-1], fresh[: len(fresh) // 2], bytes(len(fresh))]
    for at in generator.integers(0, len(fresh), 60):
        broken.append(fresh[:at] + bytes([fresh[at] ^ (1 << (at % 8))]) + fresh[at + 1 :])
    for data in broken:
        with pytest.raises(SecureSumError, match="damaged"):
            Adder(2).add([[data], [fresh]], 5)
        with pytest.raises(SecureSumError, match="damaged"):
            cipher.decrypt([data], 5)


def test_ciphertexts_of_other_parameters_are_refused(seed: bytes) -> None:
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, 2048, coeff_mod_bit_sizes=[27, 27], n_threads=1
    )
    context.global_scale = 2.0**15
    foreign = tenseal.ckks_vector(context, [1.0, 2.0]).serialize()
    another_scale = Cipher(seed, 50).encrypt(np.arange(2))[0]
    seal_bytes = foreign[foreign.index(b"\x5e\xa1") :]
    wrong = [cipher_module._with_digest(foreign), cipher_module._with_digest(seal_bytes)]
    for data in (*wrong, another_scale):
        with pytest.raises(SecureSumError, match="other parameters"):
            Adder(2).add([[data], [data]], 2)
    with pytest.raises(SecureSumError, match="malformed"):
        Adder(2).add([[bytes(100_000)]], 2)
    with pytest.raises(SecureSumError, match="need 1 ciphertexts, 2 came"):
        Adder(2).add([[b"", b""]], 2)


def test_without_tenseal_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    cipher_module._seal.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'tenseal"):
        Cipher(bytes(64), 2)
    cipher_module._seal.cache_clear()


def test_without_memory_files_a_temporary_file_serves(
    seed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    cipher = Cipher(seed, 2)
    integers = np.arange(5000)
    summed = Adder(2).add([cipher.encrypt(integers)] * 2, 5000)
    assert np.array_equal(cipher.decrypt(summed, 5000), 2 * integers)


def test_no_descriptors_are_left_open(seed: bytes) -> None:
    cipher = Cipher(seed, 2)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        cipher.decrypt(cipher.encrypt(np.arange(3)), 3)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_the_key_does_not_show(seed: bytes) -> None:
    assert repr(Cipher(seed, 2)) == "Cipher(key hidden)"
