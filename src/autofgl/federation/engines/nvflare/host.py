"""A party in a process of its own: answers messages, whatever network brings them.

The party runs in one thread, one operation after the other; calls of peers and signs of life are
answered beside it. Only the server may call operations, only parties may call peer operations, and
who calls is what the network authenticated, not what a message says.
"""

import logging
import re
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from autofgl.errors import PayloadError, UserError
from autofgl.federation.checkpoints import CheckpointError, Label, PartyStates
from autofgl.federation.engines.nvflare.line import pack_message, unpack_answer, unpack_message
from autofgl.federation.party import (
    Context,
    Failure,
    Party,
    PeerFailed,
    Refused,
    failure_of,
    one_torch_thread,
)
from autofgl.federation.payload import Payload, decode, encode
from autofgl.identity import Identity

#: Sends a message to a peer and returns its answer; raises ``PeerFailed``.
Send: TypeAlias = Callable[[str, str, bytes], bytes]

#: Name under which the server calls.
_SERVER = "server"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_log = logging.getLogger("autofgl.site")


class SiteBuilder(Protocol):
    """What a site itself has to say. Both may raise ``Refused``."""

    #: Largest message that is read, in bytes.
    limit: int

    def hello(self, payload: Payload) -> Payload:
        """What the coordinator must know before any party is built."""

    def build(self, payload: Payload, context: Context) -> Party:
        """The party, from what the server asks for and its context."""


class PartyHost:
    """Keeps one party, which the server has a site build, and answers for it.

    Checkpoints are below a folder for each run; ``send`` is the line to the peers. The identity is
    looked up for each run: its certificate may have been renewed, or expired, since the last one.
    """

    def __init__(
        self,
        name: str,
        builder: SiteBuilder,
        folder: Path,
        send: Send,
        identity: Callable[[], Identity],
    ) -> None:
        self._name = name
        self._builder = builder
        self._folder = folder
        self._peers = _PeerLine(send)
        self._identity = identity
        self._party: Party | None = None
        self._states: PartyStates
        self._gone = ""
        self._thread = ThreadPoolExecutor(1, "party", initializer=one_torch_thread)
        self._controls: Mapping[str, Callable[[Payload], Payload | None]] = {
            "@hello": builder.hello,
            "@open": self._open,
            "@checkpoint": self._checkpoint,
            "@verify": self._verify,
            "@restore": self._restore,
            "@forget": lambda asked: self._states.remove(self._label(asked)),
        }

    def answer(self, caller: str, op: str, data: bytes) -> bytes:
        """The answer to a message. Never raises: failures are answers too."""
        if op == "@ping" and caller == _SERVER:
            return _framed(dict)
        if self._gone and (op != "@open" or caller != _SERVER):
            return _failed(Failure("lost", self._gone))
        if caller != _SERVER:
            return _framed(lambda: self._handle(op, data, by_peer=True))
        done = self._thread.submit(_framed, lambda: self._handle(op, data))
        try:
            answer = done.result()
        except BaseException as error:  # a party that exits is lost, as its process would be
            self._gone = failure_of(error).message
            return _failed(Failure("lost", self._gone))
        note, body = unpack_message(answer)
        return pack_message({**note, "peer": self._peers.take()}, body)

    def close(self) -> None:
        """Let the thread go."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _handle(self, op: str, data: bytes, by_peer: bool = False) -> Payload:
        payload = decode(data, self._builder.limit)
        if op in self._controls and not by_peer:
            return self._controls[op](payload) or {}
        return self._built().handle(op, payload, by_peer)

    def _built(self) -> Party:
        if self._party is None:
            raise Refused("the party is not open yet")
        return self._party

    def _open(self, payload: Payload) -> None:
        """Begin a run; whatever ran before has ended."""
        self._party, self._gone = None, ""
        run = _safe(payload.get("run"))
        parties = payload.get("parties")
        if not isinstance(parties, list) or self._name not in parties:
            raise Refused(f"'{self._name}' is not among the parties of the run")
        try:
            identity = self._identity()
        except UserError as error:  # it speaks of files of this site
            _log.warning("refused: %s", error)
            raise Refused("it cannot prove who it is: the reason is in the site's log") from error
        folder = self._folder / run
        self._states = PartyStates(folder)
        context = Context(
            self._name,
            tuple(map(_safe, parties)),
            self._peers,
            run=run,
            identity=identity,
            ledger=folder / f"{self._name}.sums",
        )
        try:
            party = self._builder.build(payload, context)
        except Refused:
            with suppress(OSError):  # whoever asks for what is refused leaves nothing here
                folder.rmdir()
            raise
        self._party = party

    def _checkpoint(self, payload: Payload) -> Payload:
        return {"digest": self._states.save(self._label(payload), self._built())}

    def _verify(self, payload: Payload) -> Payload:
        """What is wrong with a checkpoint; nothing if it can be restored."""
        try:
            self._states.verify(self._label(payload), str(payload.get("digest")))
        except CheckpointError as error:
            _log.warning("%s", error)
            return {"problem": error.reason}
        return {"problem": ""}

    def _restore(self, payload: Payload) -> None:
        self._states.restore(self._label(payload), str(payload.get("digest")), self._built())

    def _label(self, payload: Payload) -> Label:
        """Whose checkpoint it is: that of the open party."""
        self._built()
        run = payload.get("run")
        return Label(_safe(run) if run else "", _safe(payload.get("tag")), self._name)


class _PeerLine:
    """``ctx.peers``, counting what crosses; the counts travel to the server with the answers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sizes: dict[str, list[int]] = {}

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        data = encode(payload or {})
        self._count(op, data)
        try:
            note, body = unpack_answer(self._send(peer, op, data))
        except PayloadError as error:
            raise PeerFailed(peer, "exception", f"sent a malformed answer: {error}") from error
        if note["kind"] != "ok":
            raise PeerFailed(peer, note["kind"], note["message"])
        self._count(op, body)
        return decode(body)

    def take(self) -> Payload:
        """Sizes of all messages since the last time, by operation."""
        with self._lock:
            sizes, self._sizes = self._sizes, {}
        return {**sizes}

    def _count(self, op: str, data: bytes) -> None:
        with self._lock:
            self._sizes.setdefault(op, []).append(len(data))


def _framed(work: Callable[[], Payload]) -> bytes:
    """Run and frame the outcome; an exit goes through: it is a loss."""
    try:
        return pack_message({"kind": "ok", "message": ""}, encode(work()))
    except Exception as error:
        failure = failure_of(error)
        _log.warning("%s: %s: %s", failure.kind, type(error).__name__, error, exc_info=error)
        return _failed(failure)


def _failed(failure: Failure) -> bytes:
    return pack_message({"kind": failure.kind, "message": failure.message})


def _safe(name: object) -> str:
    """A name that may become part of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"{name!r} is no name for a run, a party or a checkpoint")
    return name
