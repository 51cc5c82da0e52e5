"""Checkpoints of a run: the parties' states first, then the server's, which makes it valid.

``TAG/parties/NAME.afp`` has the state of a party that lives here, ``TAG/server.afp`` the server's,
with the digests of all parties' files. A checkpoint is restored as a whole or not at all.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from autofgl.errors import FederationError, UserError
from autofgl.federation import Federation
from autofgl.federation.checkpoints import CheckpointError, Label, read_state, write_state
from autofgl.federation.payload import Payload

#: How many are kept: the newest, and one to go back to should it be damaged.
KEPT = 2

_SERVER = "server.afp"


def save(
    folder: Path,
    at: int,
    state: Payload,
    federation: Federation,
    run: str = "",
    timeout: float | None = None,
) -> None:
    """Keep the state of a round and delete older ones.

    A crash at any moment leaves the previous checkpoint valid: the new one counts only once its
    server file is there, and only then are older ones deleted. While a party is lost, the last
    checkpoint that it has a part in is kept, for its return. Who is late has no part in it.
    """
    tag = _tag(at)
    before = [other for other in _tags(folder) if other < tag]
    if (folder / tag).exists():
        federation.forget(tag)  # left by a crash, or damaged: the run went back and made it again
    digests = federation.checkpoint(tag, run, timeout)
    parties = {"parties": list(digests), "digests": dict(digests)}
    whole = {**state, **parties, "traffic": federation.meter.state()}
    write_state(folder / tag / _SERVER, Label(run, tag), whole)
    complete = [other for other in before if (folder / other / _SERVER).is_file()]
    kept = {tag, *complete[1 - KEPT :]}
    last = {party: other for other in complete for party in _parties(folder, other, run)}
    kept |= {last[party] for party in last if party not in digests}
    for other in _tags(folder):
        if other not in kept:
            federation.forget(other)


def load_latest(
    folder: Path,
    federation: Federation,
    run: str = "",
    *,
    redo: bool = True,
    timeout: float | None = None,
    accept: Callable[[Payload], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> Payload:
    """Bring all parties back to a checkpoint and return the server's state.

    With ``redo`` it is the newest of those in which the most of these parties have a part. So a
    party that was lost and is there again takes part from its last checkpoint on, and the rounds
    that the others made without it are made again, with it. Secure sums must not be made again with
    other parties: their difference would be a party's own part. So without ``redo`` it is the
    newest of all, and who has no part in it is ``behind``, at its own last state if it has one.

    Args:
        run: The run that it must be of.
        timeout: Seconds that a party may take.
        accept: Raises ``CheckpointError`` for a server's state that cannot be gone on with.
        notice: Told when a checkpoint is damaged and the one before it is used.

    Raises:
        UserError: There is no checkpoint, or none that is whole.
    """
    here = set(federation.parties)
    states, problems = _server_states(folder, run)
    parts = {tag: len(here & set(state["parties"])) if redo else 0 for tag, state in states.items()}
    by_parts = sorted(states, key=lambda tag: (parts[tag], tag))
    for tag in reversed(by_parts):
        state = states[tag]
        try:
            if accept is not None:
                accept(state)
            digests = {name: str(state["digests"][name]) for name in here & set(state["parties"])}
            federation.restore(tag, digests, run, timeout)
        except CheckpointError as error:
            problems[tag] = error
            continue
        behind = sorted(here - set(state["parties"]))
        earlier = {other: states[other] for other in sorted(states) if other < tag}
        for party in behind:
            if redo:
                federation.drop(party)
            else:
                _restore_last(party, earlier, federation, run)
        federation.meter.load_state(state["traffic"])
        if notice is not None:
            for other in sorted(other for other in problems if other > tag):
                notice(f"{problems[other]}: going back to {tag}")
        return {**state, "behind": [] if redo else behind}
    if not problems:
        raise UserError(f"{folder} holds no checkpoint")
    raise UserError(f"{problems[max(problems)]}; no other can be used: start the run again")


def _server_states(folder: Path, run: str) -> tuple[dict[str, Payload], dict[str, CheckpointError]]:
    """The server's states that can be read, and why the others cannot, by tag."""
    states, problems = {}, {}
    for tag in _complete_tags(folder):
        try:
            states[tag] = read_state(folder / tag / _SERVER, Label(run, tag))
        except CheckpointError as error:
            problems[tag] = error
    return states, problems


def _restore_last(
    party: str, states: Mapping[str, Payload], federation: Federation, run: str
) -> None:
    """Bring a party back to the last of some states that it has a part in, if it still can."""
    tag = max((tag for tag, state in states.items() if party in state["parties"]), default="")
    if tag:
        with suppress(CheckpointError, FederationError):
            federation.restore(tag, {party: str(states[tag]["digests"][party])}, run)


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint that was completed, damaged meanwhile or not."""
    return bool(_complete_tags(folder))


def last_part(folder: Path, party: str, run: str = "") -> str:
    """The newest checkpoint in which a party has a part; empty if there is none."""
    return max((tag for tag in _tags(folder) if party in _parties(folder, tag, run)), default="")


def _parties(folder: Path, tag: str, run: str) -> list[str]:
    """Who has a part in a checkpoint; nobody in one that was not completed or is damaged."""
    try:
        return list(read_state(folder / tag / _SERVER, Label(run, tag))["parties"])
    except CheckpointError:
        return []


def _complete_tags(folder: Path) -> list[str]:
    return [tag for tag in _tags(folder) if (folder / tag / _SERVER).exists()]


def _tags(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("round-*") if path.is_dir())


def _tag(at: int) -> str:
    return f"round-{at:08d}"
