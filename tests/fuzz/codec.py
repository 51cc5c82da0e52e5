"""Hostile messages for the codec: ``python tests/fuzz/codec.py 1000000``.

Messages are made up from the grammar of the header with sizes that lie, or are good ones with bytes
flipped, cut, doubled and overwritten. Each must be a payload or a ``PayloadError``, and take less
than ten times its size in memory, besides what every message may take (``FREE``).
"""

import random
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autofgl.errors import PayloadError
from autofgl.federation import payload as codec
from autofgl.federation.payload import FREE, decode, encode

MOST = 10
#: Every so many messages are measured: to measure takes longer than to decode.
MEASURED = 25
#: Bytes that a header may have, and those that announce sizes.
_CODES = [
    0x00,
    0x7F,
    0x80,
    0x81,
    0x8F,
    0x90,
    0x91,
    0x9F,
    0xA0,
    0xA1,
    0xBF,
    *range(0xC0, 0xE1),
    0xFF,
]


def message(header: bytes, body: bytes = b"") -> bytes:
    """A message with this header and body, whatever they are."""
    padded = header + bytes(-len(header) % 8)
    return codec._PREFIX.pack(b"AFP1", len(header), len(body)) + padded + body


def bombs(size: int) -> Iterator[tuple[str, bytes]]:
    """Headers of so many bytes that would take the most memory, by name."""

    def listed(item: bytes) -> bytes:
        count = size // len(item)
        return b"\x81\xa1x\xdd" + count.to_bytes(4, "big") + item * count

    items = {
        "empty dicts": b"\x80", "empty lists": b"\x90", "small integers": b"\x05",
        "negative integers": b"\xe0", "large integers": b"\xcd\xff\xff", "booleans": b"\xc3",
        "floats": b"\xcb" + b"\x3f" * 8, "empty texts": b"\xa0", "short texts": b"\xa2ab",
        "wide texts": b"\xa4\xf0\x9f\x98\x80", "dicts of one": b"\x81\xa0\x80",
        "dicts of dicts": b"\x81\xa1a" * 20 + b"\x80", "lists of lists": b"\x91" * 20 + b"\x90",
        "empty arrays": b"\xc7\x09\x01\x05" + bytes(8), "empty bytes": b"\xd7\x02" + bytes(8),
        "dicts of three": b"\x83\xa2aa\x01\xa2bb\x02\xa2cc\x03",
        "long lists": b"\xdc\x01\x00" + b"\xe0" * 256,
    }  # fmt: skip
    for name, item in items.items():
        yield name, message(listed(item))
    keys = b"".join(b"\xa4%04x\x01" % at for at in range(min(65535, size // 6)))
    yield "many keys", message(b"\xde" + (len(keys) // 6).to_bytes(2, "big") + keys)
    yield "announced lists", message(b"\x81\xa1x" + b"\xdd\x00\xff\xff\xff" * (size // 5))
    yield "announced dicts", message(b"\xdf\x00\xff\xff\xff\xa1x" * (size // 7))
    text = "a" * (size - 8) + "\U0001f600"
    yield (
        "one wide text",
        message(b"\x81\xa1x\xdb" + len(text.encode()).to_bytes(4, "big") + text.encode()),
    )
    yield "zero-dimensional arrays", message(listed(b"\xd4\x01\x02"), bytes(8 * (size // 3)))
    yield (
        "one array",
        message(b"\x81\xa1x\xc7\x09\x01\x0b" + (size // 8).to_bytes(8, "little"), bytes(size)),
    )
    yield "one byte string", message(b"\x81\xa1x\xd7\x02" + size.to_bytes(8, "little"), bytes(size))


def random_payload(chance: random.Random) -> dict[str, Any]:
    """A payload as methods send them, small."""

    def value(depth: int) -> Any:
        kind = chance.randrange(9 if depth < 4 else 7)
        match kind:
            case 0:
                return chance.choice([0, 1, -1, 127, -128, 1 << 40, -(1 << 63), (1 << 63) - 1])
            case 1:
                return chance.choice([0.0, -1.5, 1e300, float("inf")])
            case 2:
                return chance.random() < 0.5
            case 3:
                return "".join(chance.choices("abcä😀\n", k=chance.randrange(40)))
            case 4:
                return chance.randbytes(chance.randrange(40))
            case 5 | 6:
                shape = tuple(chance.randrange(4) for _ in range(chance.randrange(4)))
                return np.ones(shape, chance.choice(codec.DTYPES))
            case 7:
                return [value(depth + 1) for _ in range(chance.randrange(5))]
        return {chance.choice("abcdefgh") * 3: value(depth + 1) for _ in range(chance.randrange(5))}

    return {f"key{at}": value(1) for at in range(chance.randrange(5))}


def made_up(chance: random.Random) -> bytes:
    """A message of codes in any order, more or less of the right sizes."""
    header = bytearray(b"\x81\xa1x" if chance.random() < 0.8 else b"")
    for _ in range(chance.randrange(1, 30)):
        header.append(chance.choice(_CODES))
        if chance.random() < 0.3:
            header += chance.randbytes(chance.randrange(9))
    return message(bytes(header), chance.randbytes(8 * chance.randrange(4)))


def mutated(chance: random.Random, good: bytes, other: bytes) -> bytes:
    """A good message with some damage."""
    data = bytearray(good)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data)) if data else 0
        kind = chance.randrange(7)
        if kind == 0 and data:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[at] = chance.choice(_CODES)
        elif kind == 2:
            del data[at : at + chance.randrange(1, 9)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 4:
            data[at : at + 8] = chance.choice([b"\xff", b"\0", b"\x7f"]) * 8
        elif kind == 5:
            data[at:] = other[at:]
        else:
            data[at:at] = data[at : at + chance.randrange(1, 40)]
    if chance.random() < 0.7 and len(data) >= 16:  # make the announced sizes fit again
        header = min(int.from_bytes(data[4:8], "little"), len(data) - 16)
        body = len(data) - 16 - header - -header % 8
        if body >= 0:
            data[:16] = codec._PREFIX.pack(b"AFP1", header, body)
    return bytes(data)


class Findings:
    """What came of the messages, and the most memory that one took for each of its bytes."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.ratio = 0.0
        self.wrong: list[str] = []

    def take(self, data: bytes, measured: bool) -> None:
        """Decode a message and note what comes of it."""
        outcome, peak = (_measured if measured else _outcome)(data)
        self.counts[outcome.partition(":")[0]] += 1
        if measured:
            self.counts["measured"] += 1
            self.ratio = max(self.ratio, (peak - FREE) / len(data)) if data else self.ratio
        if outcome.startswith("traceback") or peak > FREE + MOST * len(data):
            self.wrong.append(f"{outcome}, {peak:,} bytes for {len(data):,}: {data[:60]!r}")

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counts.items()))
        return f"{counts}; memory beyond FREE at most {self.ratio:.2f} of the input"


def _outcome(data: bytes) -> tuple[str, int]:
    try:
        payload = decode(data)
    except PayloadError:
        return "refused", 0
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {error}", 0
    try:
        encode(payload)
    except BaseException as error:
        return f"traceback when encoded again: {type(error).__name__}: {error}", 0
    return "read", 0


def _measured(data: bytes) -> tuple[str, int]:
    tracemalloc.start()
    try:
        outcome = "read"
        payload = decode(data)
        del payload
    except PayloadError:
        outcome = "refused"
    except BaseException as error:
        outcome = f"traceback: {type(error).__name__}: {error}"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return outcome, peak


def fuzz(count: int, seed: int, bomb_size: int = 1 << 23) -> Findings:
    """So many messages, after all bombs of a size."""
    chance = random.Random(seed)
    findings = Findings()
    for _, data in bombs(bomb_size):
        findings.take(data, measured=True)
    pool = [encode(random_payload(chance)) for _ in range(200)]
    makers: list[Callable[[], bytes]] = [
        lambda: made_up(chance),
        lambda: mutated(chance, chance.choice(pool), chance.choice(pool)),
        lambda: mutated(chance, chance.choice(pool), chance.choice(pool)),
    ]
    for at in range(count):
        findings.take(makers[at % 3](), measured=at % MEASURED == 0)
        if at % 50 == 0:
            pool[chance.randrange(len(pool))] = encode(random_payload(chance))
    return findings


if __name__ == "__main__":
    begin = time.process_time()
    found = fuzz(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(f"{found}; {time.process_time() - begin:.0f} CPU seconds")
    print("\n".join(found.wrong[:20]) or "nothing wrong")
    sys.exit(bool(found.wrong))
