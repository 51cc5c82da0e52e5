"""The server's side of the key exchange: it relays, and learns public keys only."""

from collections.abc import Mapping
from dataclasses import dataclass

from autofgl.secure.interface import Ask, Payload, SecureSumError
from autofgl.secure.keyring import PUBLIC_BYTES, session_id
from autofgl.secure.messages import take, take_bytes_by_name


@dataclass(frozen=True)
class Session:
    """Parties that share keys.

    Attributes:
        name: Names their public keys; see :func:`autofgl.secure.keyring.session_id`.
        roster: The parties, in order.
    """

    name: bytes
    roster: tuple[str, ...]


def agree(ask: Ask, parties: tuple[str, ...], fewest: int) -> Session:
    """Drive the key exchange of :class:`autofgl.secure.keyring.KeyRing`.

    When a party is lost on the way, the others start again without it.

    Raises:
        SecureSumError: Fewer than ``fewest`` parties are left.
    """
    left = parties
    while len(left) >= fewest:
        publics = _publics(ask("keys", {name: {} for name in left}), left)
        session = Session(session_id(publics), tuple(publics))
        left = session.roster
        if len(left) < fewest:
            break
        left = _agreed(ask("roster", {name: {"publics": publics} for name in left}), session)
        if left == session.roster:
            left = _share_group_key(ask, session)
            if left == session.roster:
                return session
    raise SecureSumError(
        f"the key exchange needs {fewest} parties, {len(left)} answered "
        f"(no answer from {', '.join(name for name in parties if name not in left)})"
    )


def _share_group_key(ask: Ask, session: Session) -> tuple[str, ...]:
    """Let the first party that answers draw the group key; who has it in the end."""
    for leader in session.roster:
        answers = ask("lead", {leader: {}})
        if leader in answers:
            boxes = take_bytes_by_name(answers[leader], "boxes")
            messages = {
                name: {"leader": leader, "box": boxes.get(name, b"")} for name in session.roster
            }
            return _agreed(ask("group", messages), session)
    return ()


def _publics(answers: Mapping[str, Payload], parties: tuple[str, ...]) -> dict[str, bytes]:
    publics = {name: take(answers[name], "public", bytes) for name in parties if name in answers}
    if wrong := [name for name, public in publics.items() if len(public) != PUBLIC_BYTES]:
        raise SecureSumError(f"malformed public key of {', '.join(wrong)}")
    return publics


def _agreed(answers: Mapping[str, Payload], session: Session) -> tuple[str, ...]:
    return tuple(
        name
        for name in session.roster
        if name in answers and answers[name].get("session") == session.name
    )
