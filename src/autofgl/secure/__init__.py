"""Secure sums over named vectors: parties contribute, the sum is all that is revealed."""

from autofgl.secure.interface import (
    Ask,
    Reveal,
    SecureSumError,
    SumClient,
    SumRefused,
    SumServer,
    Total,
)
from autofgl.secure.modes import MODES, make_client, make_server
from autofgl.secure.vectors import select, spread

__all__ = [
    "MODES",
    "Ask",
    "Reveal",
    "SecureSumError",
    "SumClient",
    "SumRefused",
    "SumServer",
    "Total",
    "make_client",
    "make_server",
    "select",
    "spread",
]
