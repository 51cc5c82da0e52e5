"""Shamir's t-of-n secret sharing of 32-byte secrets over the field of 2**255 - 19.

A secret is the value at 0 of a random polynomial of degree t - 1; the shares are its values at
1 .. n. Any t of them give the secret, fewer say nothing about it.

Shamir, "How to share a secret", CACM 1979.
"""

import secrets
from collections.abc import Collection, Mapping

from autofgl.secure.interface import SecureSumError

PRIME = 2**255 - 19
SHARE_BYTES = 32


def random_secret() -> bytes:
    """A secret that can be shared: a random element of the field."""
    return _pack(secrets.randbelow(PRIME))


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares for the points 1 .. count."""
    polynomial = [_unpack(secret), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    shares = []
    for point in range(1, count + 1):
        value = 0
        for coefficient in reversed(polynomial):
            value = (value * point + coefficient) % PRIME
        shares.append(_pack(value))
    return shares


def weights(points: Collection[int]) -> dict[int, int]:
    """Lagrange's coefficients: what each point's share counts in the secret."""
    result = {}
    for point in points:
        over = under = 1
        for other in points:
            if other != point:
                over = over * other % PRIME
                under = under * (other - point) % PRIME
        result[point] = over * pow(under, -1, PRIME) % PRIME
    return result


def combine(shares: Mapping[int, bytes], weight: Mapping[int, int]) -> bytes:
    """The secret of shares by point; ``weight`` is :func:`weights` of the same points."""
    total = sum(_unpack(share) * weight[point] for point, share in shares.items())
    return _pack(total % PRIME)


def _pack(value: int) -> bytes:
    return value.to_bytes(SHARE_BYTES, "little")


def _unpack(data: bytes) -> int:
    value = int.from_bytes(data, "little")
    if len(data) != SHARE_BYTES or value >= PRIME:
        raise SecureSumError("malformed share of a secret")
    return value
