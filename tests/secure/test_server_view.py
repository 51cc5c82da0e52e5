"""Watches the traffic: what the server gets, alone or combined, is no party's vector."""

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag

sys.path.insert(0, str(Path(__file__).parent))
from sum_network import SumNetwork, draw

from autofgl.federation.payload import Payload, encode
from autofgl.secure import SecureSumError, ckks
from autofgl.secure.ckks.cipher import SEED_BYTES, Cipher
from autofgl.secure.keys import _expand
from autofgl.secure.shares.client import cover_cipher
from autofgl.secure.shares.masks import (
    FRACTION_BITS,
    add_stream,
    combine_shares,
    lagrange_weights,
    self_mask_key,
)

SECURE = ["ckks", "shares", "shares-additive"]


def watched(mode: str, reveal: str, lost_at: dict[str, str] | None = None) -> Any:
    network = SumNetwork(mode, 5, threshold=3).ready()
    network.lost_at = lost_at or {}
    vectors = draw(network.parties)
    if reveal == "server":
        network.sum("t", vectors)
    else:
        network.shared_sum("t", vectors)
    return network, vectors


def forms(values: Any) -> Iterator[bytes]:
    """How a vector could look on the wire."""
    for dtype in (np.float16, np.float32, np.float64):
        yield values.astype(dtype).tobytes()
    for bits in (ckks.FRACTION_BITS, FRACTION_BITS):
        steps = np.rint(values.astype(np.float64) * 2.0**bits)
        yield steps.astype(np.int64).tobytes()
        yield steps.tobytes()
        for guard in (1, 2):
            yield (steps.astype(np.int64) << guard).tobytes()


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


@pytest.mark.parametrize("reveal", ["server", "parties"])
@pytest.mark.parametrize("mode", SECURE)
def test_no_message_holds_a_vector(mode: str, reveal: str) -> None:
    network, vectors = watched(mode, reveal)
    wire = b"".join(encode(message) for message in network.server_view)
    for own in vectors.values():
        for form in forms(own["w"]):
            for start in range(0, len(form) - 16, 16):
                assert form[start : start + 16] not in wire


def test_the_watcher_would_see_a_vector() -> None:
    network, vectors = watched("none", "server")
    wire = b"".join(encode(message) for message in network.server_view)
    assert all(any(form in wire for form in forms(own["w"])) for own in vectors.values())


@pytest.mark.parametrize("reveal", ["server", "parties"])
def test_ciphertexts_do_not_decrypt_with_anything_the_server_has(reveal: str) -> None:
    network, _ = watched("ckks", reveal)
    received = [leaf for message in network.server_view for leaf in leaves(message)]
    texts = [leaf for leaf in received if isinstance(leaf, bytes)]
    ciphertexts = {text for text in texts if len(text) > 1000}
    keys = {text[:32] for text in texts if len(text) >= 16} | {bytes(32)}
    assert len(ciphertexts) >= 5
    assert len(keys) >= 5
    for key in keys:
        seeds = {_expand(key, "ckks", "", size=SEED_BYTES), (key * 4)[:SEED_BYTES]}
        for cipher in (Cipher(seed, 5) for seed in seeds if len(seed) == SEED_BYTES):
            for ciphertext in ciphertexts:
                with pytest.raises(SecureSumError, match="does not decrypt"):
                    cipher.decrypt([ciphertext], 40)


def test_the_server_holds_no_ckks_key() -> None:
    network, _ = watched("ckks", "server")
    adder = network.server._adder
    kinds = {type(value).__name__ for value in vars(adder).values()}
    assert kinds == {"Adder", "int"}
    assert not any(hasattr(adder._adder, name) for name in ("_decryptor", "_encryptor", "_encoder"))
    kinds = {type(value).__name__ for value in vars(adder._adder).values()}
    assert kinds == {"Evaluator", "float"}


def masks_of(network: SumNetwork, size: int) -> list[Any]:
    """The streams of every key and secret that the server ever received."""
    keys = set()
    for leaf in (leaf for message in network.server_view for leaf in leaves(message)):
        if isinstance(leaf, bytes) and len(leaf) == 32:
            keys.add(leaf)
    for secret in rebuilt_secrets(network, "shares").values():
        keys.add(self_mask_key(secret))
    keys |= uncovered_seeds(network)
    streams = []
    for key in sorted(keys):
        stream = np.zeros(size, np.uint64)
        add_stream(stream, key)
        streams.append(stream)
    return streams


def rebuilt_secrets(network: SumNetwork, key: str) -> dict[str, bytes]:
    """The secrets of which the server got shares, by owner."""
    given = [m[key] for m in network.server_view if sorted(m) == ["covers", "shares"]]
    if len(given) < 3:
        return {}
    roster = network.server._session.roster  # type: ignore[attr-defined]
    answering = [name for name in roster if name not in network._gone][:3]
    points = [roster.index(name) + 1 for name in answering]
    weight = lagrange_weights(points)
    return {
        owner: combine_shares({p: given[i][owner] for i, p in enumerate(points)}, weight)
        for owner in given[0]
    }


def uncovered_seeds(network: SumNetwork) -> set[bytes]:
    """The pairwise masks with lost parties that the server can read in the end."""
    seeds = set()
    covers = [message["cover"] for message in network.server_view if "cover" in message]
    for secret, cover in itertools.product(rebuilt_secrets(network, "covers").values(), covers):
        with contextlib.suppress(InvalidTag):
            text = cover_cipher(secret).decrypt(bytes(12), cover, b"")
            seeds |= {text[start : start + 32] for start in range(0, len(text), 32)}
    return seeds


def signed_sums(masks: list[Any], most: int, size: int) -> Any:
    """All that up to so many of the masks, each added or taken away, can come to."""
    signed = [np.stack([mask, -mask]) for mask in masks]
    sums = [np.zeros((1, size), np.uint64)]
    for count in range(1, most + 1):
        for chosen in itertools.combinations(signed, count):
            total = np.zeros((1, size), np.uint64)
            for both in chosen:
                total = (total[:, None] + both).reshape(-1, size)
            sums.append(total)
    return np.concatenate(sums)


@pytest.mark.parametrize("reveal", ["server", "parties"])
@pytest.mark.parametrize("lost_at", [{}, {"p03": "protect"}, {"p03": "protect", "p02": "settle"}])
def test_no_combination_of_masks_uncovers_a_vector(lost_at: dict[str, str], reveal: str) -> None:
    network, vectors = watched("shares", reveal, lost_at)
    size = 4  # a few words are enough to tell
    masks = [mask[:size] for mask in masks_of(network, 40)]
    assert len(rebuilt_secrets(network, "shares")) >= 3
    assert len(uncovered_seeds(network)) == {0: 0, 1: 4, 2: 6}[len(lost_at)]
    covered = {
        message["words"].tobytes(): message["words"][:size]
        for message in network.server_view
        if "words" in message and "check" in message
    }
    assert len(covered) >= 3
    targets = [
        (
            np.rint(own["w"][:size].astype(float) * 2.0**FRACTION_BITS).astype(np.int64) << guard
        ).view(np.uint64)
        for own in vectors.values()
        for guard in (0, 1, 2)
    ]
    sums = signed_sums(masks, 3, size)
    for words in covered.values():
        left = words - sums
        for target in targets:
            assert not (left == target).all(1).any()


@pytest.mark.parametrize("mode", ["shares", "shares-additive"])
def test_a_sealed_sum_looks_random(mode: str) -> None:
    network = SumNetwork(mode, 4).ready()
    vectors = {name: {"w": np.zeros(20_000)} for name in network.parties}
    sent = network.contribute("t", vectors, "parties")
    sealed: Payload = network.server.seal("t", sent, network.ask)
    bits = np.unpackbits(sealed["words"].view(np.uint8)).reshape(-1, 64)
    # four contributors: two guard bits, known zeros, in the lowest byte
    shares = np.sort(bits.mean(axis=0))
    assert np.array_equal(shares[:2], [0, 0])
    assert np.all(np.abs(shares[2:] - 0.5) < 0.02)
