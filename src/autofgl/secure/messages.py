"""Taking fields out of messages that anybody may have sent."""

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from autofgl.secure.interface import Payload, SecureSumError

T = TypeVar("T")


def take(message: Payload, key: str, kind: type[T]) -> T:
    """A field of a message, which must be there and of that very type."""
    value = message.get(key)
    if type(value) is not kind:
        raise SecureSumError(f"malformed message: '{key}' should be {kind.__name__}")
    return value


def take_names(message: Payload, key: str) -> list[str]:
    """A list of different names."""
    names = take(message, key, list)
    if not all(type(name) is str for name in names) or len(set(names)) != len(names):
        raise SecureSumError(f"malformed message: '{key}' should be a list of different names")
    return names


def take_bytes_by_name(message: Payload, key: str, size: int | None = None) -> dict[str, bytes]:
    """A dict of byte strings, all of one size if that is given."""
    items: dict[Any, Any] = take(message, key, dict)
    for name, value in items.items():
        if type(name) is not str or type(value) is not bytes or size not in (None, len(value)):
            raise SecureSumError(f"malformed message: '{key}' should map names to bytes")
    return items


def take_words(message: Payload, key: str, size: int) -> NDArray[np.uint64]:
    """A vector of ``size`` unsigned 64-bit words."""
    words = take(message, key, np.ndarray)
    if words.dtype != np.uint64 or words.shape != (size,):
        raise SecureSumError(f"malformed message: '{key}' should be {size} 64-bit words")
    return words


def frame(*parts: str | bytes) -> bytes:
    """Several pieces as one, so that no two different lists give the same bytes."""
    return b"".join(
        _named(part) if isinstance(part, str) else len(part).to_bytes(4, "big") + part
        for part in parts
    )


@lru_cache(maxsize=4096)
def _named(part: str) -> bytes:
    """A text behind its length; the same few names come again and again."""
    return frame(part.encode())
