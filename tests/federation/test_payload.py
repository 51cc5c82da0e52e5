import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from autofgl.errors import PayloadError
from autofgl.federation import payload as codec
from autofgl.federation.payload import (
    DTYPES,
    Payload,
    decode,
    encode,
    encoded_size,
    fingerprint,
    freeze,
)

arrays = st.sampled_from([np.dtype(name) for name in DTYPES]).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)
leaves = (
    arrays
    | st.binary(max_size=40)
    | st.text(max_size=20)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.booleans()
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner)
)
payloads = st.dictionaries(st.text(max_size=8), values, max_size=5)


def same(a: Any, b: Any) -> bool:
    """Equal in type, dtype, shape and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or (a != a and b != b)
    return bool(a == b)


@given(payloads, st.data(), st.binary(min_size=1, max_size=20))
def test_every_payload(payload: Payload, data: st.DataObject, extra: bytes) -> None:
    """One payload for all properties: making payloads is what takes the time."""
    message = encode(payload)
    assert same(decode(message), payload)
    assert encoded_size(freeze(payload)) == len(message), "the size is known without encoding"
    assert fingerprint(decode(message)) == fingerprint(freeze(payload)), "both sides name it alike"
    at = data.draw(st.integers(0, len(message) - 1))
    for wrong in (message[:at], message + extra):
        with pytest.raises(PayloadError):
            decode(wrong)
    damaged = bytearray(message)
    damaged[at] = data.draw(st.integers(0, 255))
    with suppress(PayloadError):  # nothing else may be raised
        decode(bytes(damaged))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(PayloadError):
        decode(data)


def message(header: bytes, body: bytes = b"") -> bytes:
    padded = header.ljust(-(-len(header) // 8) * 8, b"\0")
    return codec._PREFIX.pack(b"AFP1", len(header), len(body)) + padded + body


def test_pickles_are_not_executed(tmp_path: Path) -> None:
    target = tmp_path / "executed"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (target,))

    for data in (pickle.dumps(Bomb()), message(pickle.dumps(Bomb()))):
        with pytest.raises(PayloadError):
            decode(data)
    with pytest.raises(PayloadError):
        encode({"x": np.array([Bomb()], dtype=object)})
    assert not target.exists()


@pytest.mark.parametrize(
    "header",
    [
        msgpack.packb([1, 2]),
        msgpack.packb({"x": None}),
        msgpack.packb({1: 2}),
        msgpack.packb({"x": 2**64 - 1}),
        msgpack.packb({"x": msgpack.ExtType(9, b"")}),
        msgpack.packb({"x": msgpack.Timestamp(0, 0)}),
        msgpack.packb({"x": msgpack.ExtType(1, b"\xff" + bytes(8))}),
        msgpack.packb({"x": msgpack.ExtType(1, b"\0" + bytes(7))}),
        msgpack.packb({"x": msgpack.ExtType(1, b"\0" + b"\xff" * 8)}),
        msgpack.packb({"x": msgpack.ExtType(1, b"\0" + bytes(8) + b"\xff" * 8)}),
        msgpack.packb({"x": msgpack.ExtType(1, b"\0" + bytes(8 * 9))}),
        msgpack.packb({"x": msgpack.ExtType(2, b"\1" + bytes(7))}),
        b"\x81\xa1x" + b"\x91" * 100 + b"\x01",
        b"\x91" * 100_000,
    ],
)
def test_hostile_headers_are_rejected(header: bytes) -> None:
    with pytest.raises(PayloadError):
        decode(message(header))


def test_booleans_other_than_0_and_1_are_rejected() -> None:
    note = msgpack.packb({"x": msgpack.ExtType(1, b"\0" + (8).to_bytes(8, "little"))})
    with pytest.raises(PayloadError, match="boolean"):
        decode(message(note, bytes([2] * 8)))


def test_bytes_that_nothing_refers_to_are_rejected() -> None:
    with pytest.raises(PayloadError, match="refers"):
        decode(message(msgpack.packb({}), bytes(8)))


def test_oversized_message_is_rejected_before_it_is_parsed() -> None:
    data = encode({"x": np.zeros(1000)})
    with pytest.raises(PayloadError, match="limit"):
        decode(data, limit=1000)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "NoneType"),
        ((1, 2), "tuple"),
        (np.float32(1), "float32"),
        (np.float64(1), "float64"),
        (1 + 2j, "complex"),
        ({1, 2}, "set"),
        (2**70, "64 bits"),
        (np.array(["a"]), "dtype"),
        (np.array([1], dtype=">i4"), "dtype"),
        (np.zeros((1,) * 9), "dimensions"),
        ({"a": {1: 2}}, "keys"),
    ],
)
def test_other_types_may_not_travel(value: Any, named: str) -> None:
    with pytest.raises(PayloadError, match=named):
        encode({"x": value})
    with pytest.raises(PayloadError, match=named):
        freeze({"x": value})


def test_a_payload_is_a_dict() -> None:
    with pytest.raises(PayloadError):
        encode([1])  # type: ignore[arg-type]


def test_received_arrays_are_read_only() -> None:
    mine = np.zeros(3)
    for received in (freeze({"x": mine}), decode(encode({"x": mine}))):
        with pytest.raises(ValueError, match="read-only"):
            received["x"][0] = 1
    mine[0] = 1


def test_non_contiguous_arrays_keep_their_values() -> None:
    array = np.arange(12).reshape(3, 4).T[::2]
    assert np.array_equal(decode(encode({"x": array}))["x"], array)


def test_many_small_values_travel_with_zeros_beside_them() -> None:
    """A large state of a search: more memory than its bytes may stand for, so it has more bytes."""
    trials = [{"params": {"op": "gcn", "k": at}, "values": [0.5]} for at in range(3000)]
    payload: Payload = {"trials": trials, "flags": [True] * 20_000, "text": "ä" * 1000}
    data = encode(payload)
    assert decode(data) == payload
    assert encoded_size(freeze(payload)) == len(data)
    assert codec._weight(payload) <= codec.FREE + codec.RATIO * len(data)
    assert encode({"x": 1}).count(0) < 16, "few values need no more than they are"


def test_a_weight_is_what_the_reader_charges() -> None:
    payload: Payload = {
        "a": {"bb": [1, -200, 1 << 40, 2.5, True, "text", "ü😀", b"bytes"], "empty": [{}, []]},
        "array": np.zeros((2, 3)),
    }
    data = encode(payload)
    reader = codec._Reader(data, 16 + int.from_bytes(data[4:8], "little"), 0)
    reader._body_at = 16 + -(-int.from_bytes(data[4:8], "little") // 8) * 8
    before = reader._left
    assert same(reader.value(0), payload)
    assert before - reader._left == codec._weight(payload)


def test_texts_that_are_no_unicode_may_not_travel() -> None:
    for payload in ({"x": "\ud800"}, {"\ud800": 1}):
        with pytest.raises(PayloadError, match="Unicode"):
            encode(payload)


def test_keys_are_short_and_there_once() -> None:
    assert decode(encode({"k" * 1024: 1})) == {"k" * 1024: 1}
    with pytest.raises(PayloadError, match="too long"):
        encode({"k" * 1025: 1})
    long = b"\x81\xda\x20\x00" + b"k" * 0x2000 + b"\x01"
    with pytest.raises(PayloadError, match="longer than"):
        decode(message(long))
    with pytest.raises(PayloadError, match="twice"):
        decode(message(b"\x82\xa1a\x01\xa1a\x02"))


@pytest.mark.parametrize("depth", [codec.MAX_DEPTH - 1, codec.MAX_DEPTH])
def test_nesting_ends_at_the_same_depth_for_both_sides(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    header = b"\x81\xa1x" + b"\x91" * depth + b"\x01"
    if depth < codec.MAX_DEPTH:
        assert decode(encode({"x": value})) == decode(message(header)) == {"x": value}
    else:
        with pytest.raises(PayloadError, match="nested"):
            encode({"x": value})
        with pytest.raises(PayloadError, match="nested"):
            decode(message(header))


def test_what_the_encoder_never_writes_is_not_read() -> None:
    for value in (b"\xc0", b"\xc1", b"\xc4\x01a", b"\xca\0\0\0\0", b"\xd6\xff\0\0\0\0"):
        with pytest.raises(PayloadError):
            decode(message(b"\x81\xa1x" + value))


def test_payloads_that_differ_have_other_fingerprints() -> None:
    words = np.arange(6, dtype=np.uint64)
    payloads = [
        {"a": words, "b": b"xy"},
        {"a": words[:5], "b": b"xy"},
        {"a": words.reshape(2, 3), "b": b"xy"},
        {"a": words.view(np.int64), "b": b"xy"},
        {"a": words + np.uint64(1), "b": b"xy"},
        {"a": words, "b": b"x", "c": b"y"},
        {"a": words, "b": b"x", "c": b"yz"},
        {"a": words, "b": [b"xy"]},
    ]
    assert len({fingerprint(freeze(one)) for one in payloads}) == len(payloads)
