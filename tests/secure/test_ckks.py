"""CKKS: exact within its noise, and nothing of another key, damaged or foreign gets through."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import tenseal
import tenseal.sealapi as sealapi

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, carry, draw

from autofgl.errors import UserError
from autofgl.federation.payload import Payload, encode
from autofgl.secure import SecureSumError, SumRefused, ckks, make_server
from autofgl.secure import ckks_parameters as parameters
from autofgl.secure.ckks import Adder, Cipher

SIZE = 3 * parameters.DEGREE - 5


@pytest.fixture(scope="module")
def seed() -> bytes:
    return os.urandom(ckks.SEED_BYTES)


@pytest.mark.parametrize("parties", [2, 3, 50])
def test_sums_are_exact_up_to_the_capacity(seed: bytes, parties: int) -> None:
    generator = np.random.default_rng(parties)
    limit = parameters.capacity(parties) // parties
    cipher = Cipher(seed, parties)
    signs = generator.choice([-1, 1], SIZE)
    for rows in (
        [generator.integers(-limit, limit, SIZE, endpoint=True) for _ in range(parties)],
        [limit * signs for _ in range(parties)],
        [np.full(SIZE, limit) for _ in range(parties)],
    ):
        summed = Adder(parties).add([cipher.encrypt(row) for row in rows], SIZE)
        assert np.array_equal(cipher.decrypt(summed, SIZE), np.sum(rows, axis=0))


@pytest.mark.parametrize("parties", [1, 4, 25])
def test_the_noise_is_as_derived(seed: bytes, parties: int) -> None:
    cipher = Cipher(seed, parties)
    zeros = np.zeros(8 * parameters.DEGREE, np.int64)
    summed = Adder(parties).add([cipher.encrypt(zeros) for _ in range(parties)], zeros.size)
    with ckks._scratch() as scratch:
        slots = [
            cipher._decrypt(ckks._load(data, float(parameters.grid(parties)), scratch))
            for data in summed
        ]
    noise = np.concatenate([np.real(slots), np.imag(slots)]) * parameters.grid(parties)
    assert 0.9 < noise.std() / parameters.noise_deviation(parties) < 1.05
    assert np.abs(noise).max() < 0.6 * parameters.noise_bound(parties)


def test_the_grid_leaves_room_for_the_noise() -> None:
    for parties in range(2, 51):
        room = parameters.grid(parties) / 2 - parameters.noise_bound(parties)
        assert room >= 2 * parameters.noise_deviation(parties)
        assert parameters.error_bound(parties) <= 1e-6
        largest = parameters.capacity(parties) / parties / 2**parameters.FRACTION_BITS
        assert largest > 100
        coefficient = 2**0.5 * parameters.capacity(parties) * parameters.grid(parties)
        assert coefficient + parameters.noise_bound(parties) < 2 ** (parameters.MODULUS_BITS - 1)


def test_the_parameters_have_more_than_128_bits_of_security() -> None:
    for level in (sealapi.SEC_LEVEL_TYPE.TC128, sealapi.SEC_LEVEL_TYPE.TC256):
        most = sealapi.CoeffModulus.MaxBitCount(parameters.DEGREE, level)
        assert most >= parameters.MODULUS_BITS


def test_two_values_fill_a_slot_and_fresh_ciphertexts_are_half() -> None:
    cipher = Cipher(os.urandom(ckks.SEED_BYTES), 2)
    data = cipher.encrypt(np.arange(100 * parameters.DEGREE))
    assert len(data) == 100
    assert sum(map(len, data)) / (100 * parameters.DEGREE) < 8.1


def test_a_seed_stands_for_one_key(seed: bytes) -> None:
    integers = np.arange(10)
    assert np.array_equal(Cipher(seed, 2).decrypt(Cipher(seed, 2).encrypt(integers), 10), integers)
    assert Cipher(seed, 2).encrypt(integers) != Cipher(seed, 2).encrypt(integers)


@pytest.mark.parametrize("size", [1, 100, parameters.DEGREE])
def test_ciphertexts_of_another_key_are_refused(seed: bytes, size: int) -> None:
    integers = np.arange(size)
    own, other = Cipher(seed, 2), Cipher(os.urandom(ckks.SEED_BYTES), 2)
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
    for data in (ckks._with_digest(foreign), ckks._with_digest(seal_bytes), another_scale):
        with pytest.raises(SecureSumError, match="other parameters"):
            Adder(2).add([[data], [data]], 2)
    with pytest.raises(SecureSumError, match="malformed"):
        Adder(2).add([[bytes(100_000)]], 2)
    with pytest.raises(SecureSumError, match="need 1 ciphertexts, 2 came"):
        Adder(2).add([[b"", b""]], 2)


def test_revealed_sums_carry_no_noise() -> None:
    """Noisy decryptions would let the server solve for the key."""
    network = SumNetwork("ckks", 3).ready()
    sums = network.sum("t", draw(network.parties, (5000,)))
    steps = sums["w"] * 2.0**parameters.FRACTION_BITS
    assert np.array_equal(steps, np.rint(steps))


def test_when_the_decrypting_party_is_lost_the_next_one_decrypts() -> None:
    network = SumNetwork("ckks", 3).ready()
    network.lost_at = {"p00": "decrypt", "p01": "decrypt"}
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == ("p00", "p01", "p02")
    network.lost_at["p02"] = "decrypt"
    with pytest.raises(SecureSumError, match=r"needs contributions|no party decrypted"):
        network.sum("u", vectors)


@pytest.mark.parametrize("phase", ["keys", "roster", "lead", "group", "protect"])
def test_a_lost_party_is_left_out(phase: str) -> None:
    network = SumNetwork("ckks", 3)
    network.lost_at = {"p00": phase}
    network.ready()
    vectors = draw(network.parties)
    total = network.server.total("t", network.contribute("t", vectors), network.ask)
    assert total.contributors == ("p01", "p02")
    plain = vectors["p01"]["w"].astype(float) + vectors["p02"]["w"]
    assert np.abs(total.vectors["w"] - plain).max() <= parameters.error_bound(2)


class Request:
    """What the server would send for decryption."""

    def __init__(self, reveal: str = "server") -> None:
        self.network = SumNetwork("ckks", 3).ready()
        self.client = self.network.clients["p00"]
        sent = self.network.contribute("t", draw(self.network.parties), reveal)  # type: ignore[arg-type]
        self.message: Payload = self.network.server._add("t", reveal, sent)[1]  # type: ignore[attr-defined]

    def decrypt(self, **changed: object) -> Payload:
        return self.client.handle("decrypt", carry({**self.message, **changed}))


def test_a_party_decrypts_a_sum_once() -> None:
    request = Request()
    request.decrypt()
    with pytest.raises(SumRefused, match="read it before"):
        request.decrypt()


def test_a_party_decrypts_only_what_it_meant_for_the_server() -> None:
    with pytest.raises(SumRefused, match="for the server to read"):
        Request("parties").decrypt()
    with pytest.raises(SumRefused, match="for the server to read"):
        Request().decrypt(tag="another")
    with pytest.raises(SumRefused, match="2 or more parties only"):
        Request().decrypt(contributors=["p00"])
    with pytest.raises(SecureSumError, match="another key"):
        Request().decrypt(session=b"other")
    request = Request()
    with pytest.raises(SumRefused, match="for the server"):
        request.client.open(request.message)


def test_the_server_needs_keys_to_be_set_up() -> None:
    network = SumNetwork("ckks", 2).ready()
    sent = network.contribute("t", draw(network.parties))
    with pytest.raises(SecureSumError):
        make_server("ckks", parties=network.parties).total("t", sent, network.ask)


def test_a_decryption_of_another_size_is_refused() -> None:
    network = SumNetwork("ckks", 2).ready()
    sent = network.contribute("t", draw(network.parties))
    with pytest.raises(SecureSumError, match="to something else"):
        network.server.total("t", sent, lambda phase, messages: {"p00": {"values": np.ones(3)}})


def test_without_tenseal_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal.sealapi", None)
    ckks._seal.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'tenseal"):
        Cipher(bytes(64), 2)
    ckks._seal.cache_clear()


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


def test_keys_do_not_show(seed: bytes) -> None:
    assert repr(Cipher(seed, 2)) == "Cipher(key hidden)"
    network = SumNetwork("ckks", 2).ready()
    network.sum("t", draw(network.parties))
    key = network.clients["p00"]._ring.group_key("ckks", size=64)  # type: ignore[attr-defined]
    assert all(key not in encode(message) for message in network.server_view)
