"""What all contributions to a sum carry besides the values, and how the server checks it."""

from collections.abc import Mapping
from dataclasses import dataclass

from autofgl.secure.interface import Payload, Reveal, SecureSumError
from autofgl.secure.messages import take
from autofgl.secure.vectors import Layout


@dataclass(frozen=True)
class Header:
    """What must be equal in all contributions to one sum.

    Attributes:
        tag: Name of the sum.
        session: Names the keys.
        reveal: Who may read the sum.
        fraction_bits: The values' precision.
        layout: Names and shapes of the vectors.
    """

    tag: str
    session: bytes
    reveal: str
    fraction_bits: int
    layout: Layout

    def __post_init__(self) -> None:
        if self.reveal not in ("server", "parties"):
            raise SecureSumError(f"a sum is for 'server' or 'parties', not for '{self.reveal}'")

    def to_payload(self) -> Payload:
        """The header as it travels."""
        return {
            "tag": self.tag,
            "session": self.session,
            "reveal": self.reveal,
            "fraction_bits": self.fraction_bits,
            **self.layout.to_payload(),
        }

    @classmethod
    def from_payload(cls, message: Payload) -> "Header":
        """Read a header."""
        return cls(
            take(message, "tag", str),
            take(message, "session", bytes),
            take(message, "reveal", str),
            take(message, "fraction_bits", int),
            Layout.from_payload(message),
        )


def common_header(
    tag: str,
    reveal: Reveal,
    session: bytes,
    contributions: Mapping[str, Payload],
    parties: tuple[str, ...],
    fewest: int,
) -> Header:
    """The header that all contributions share.

    Raises:
        SecureSumError: They are too few, or do not belong to this sum, or differ in shape.
    """
    if strangers := sorted(set(contributions) - set(parties)):
        raise SecureSumError(f"'{tag}' has contributions of strangers: {', '.join(strangers)}")
    if len(contributions) < fewest:
        raise SecureSumError(
            f"'{tag}' needs contributions of {fewest} parties, {len(contributions)} came"
        )
    headers = {name: Header.from_payload(message) for name, message in contributions.items()}
    first_name, first = next(iter(headers.items()))
    for name, header in headers.items():
        _check(name, header, tag, reveal, session)
        if header.layout != first.layout:
            raise SecureSumError(
                f"'{tag}': the vectors of {first_name} and {name} differ: "
                f"{first.layout.difference(header.layout)}"
            )
        if header.fraction_bits != first.fraction_bits:
            raise SecureSumError(f"'{tag}': {first_name} and {name} differ in fraction bits")
    return first


def _check(name: str, header: Header, tag: str, reveal: Reveal, session: bytes) -> None:
    if header.tag != tag:
        raise SecureSumError(f"the contribution of {name} to '{tag}' was made for '{header.tag}'")
    if header.session != session:
        raise SecureSumError(
            f"the contribution of {name} to '{tag}' was made with other keys than were agreed on"
        )
    if header.reveal != reveal:
        raise SecureSumError(
            f"{name} contributed to '{tag}' for the {header.reveal} to read, not the {reveal}"
        )
