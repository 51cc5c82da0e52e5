"""Checkpoints of a run: the parties' states first, then the server's, which makes it valid."""

from pathlib import Path

from autofgl.errors import UserError
from autofgl.federation import Federation
from autofgl.federation.payload import Payload, read_payload, write_payload

_SERVER = "server.afp"


def save(folder: Path, at: int, state: Payload, federation: Federation) -> None:
    """Keep the state of a round and delete older ones.

    A crash at any moment leaves the previous checkpoint valid: the new one counts only once its
    server file is there, and only then are older ones deleted. While a party is lost, the last
    checkpoint that it has a part in is kept, for its return.
    """
    tag = f"round-{at:08d}"
    others = [other for other in _tags(folder) if other != tag]
    older = [other for other in others if set(federation.parties) >= set(_parties(folder, other))]
    federation.checkpoint(tag)
    whole = {**state, "parties": list(federation.parties), "traffic": federation.meter.state()}
    write_payload(folder / tag / _SERVER, whole)
    for other in older:
        federation.forget(other)


def load_latest(folder: Path, federation: Federation) -> Payload:
    """Bring all parties back to a checkpoint and return the server's state.

    It is the newest of those in which the most of these parties have a part. So a party that was
    lost and is there again takes part from its last checkpoint on, and the rounds that the others
    made without it are made again, with it.
    """
    valid = [tag for tag in _tags(folder) if (folder / tag / _SERVER).exists()]
    if not valid:
        raise UserError(f"{folder} holds no checkpoint")
    here = set(federation.parties)
    tag = max(valid, key=lambda tag: (len(here & set(_parties(folder, tag))), tag))
    state = read_payload(folder / tag / _SERVER)
    for party in here - set(state["parties"]):
        federation.drop(party)
    federation.restore(tag)
    federation.meter.load_state(state["traffic"])
    return state


def exists(folder: Path) -> bool:
    """Whether there is a valid checkpoint."""
    return any((folder / tag / _SERVER).exists() for tag in _tags(folder))


def last_part(folder: Path, party: str) -> str:
    """The newest checkpoint in which a party has a part; empty if there is none."""
    return max((tag for tag in _tags(folder) if party in _parties(folder, tag)), default="")


def _parties(folder: Path, tag: str) -> list[str]:
    """Who has a part in a checkpoint; nobody in one that was not completed."""
    file = folder / tag / _SERVER
    return list(read_payload(file)["parties"]) if file.exists() else []


def _tags(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("round-*") if path.is_dir())
