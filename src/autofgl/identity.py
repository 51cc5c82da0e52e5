"""Who a party is, so that no server can take its place among the others."""

from typing import Protocol


class Identity(Protocol):
    """Proves who a party is: signs in its name, and tells whether another party signed."""

    def sign(self, data: bytes) -> bytes:
        """This party's signature."""

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        """Whether the party of that name signed the data."""
