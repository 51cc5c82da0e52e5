"""Parties at sites of their own, over NVFlare: persistent processes, mutual TLS.

The federation lives in the coordinator's process, on the server's machine. Its messages go through
a local socket to the bridge in the server's job process, and from there to the sites. Every message
is the bytes of our own codec.

A site that is gone would only be noticed when a call times out, and calls of this framework may
take hours. So while an answer is awaited the site is asked for signs of life.
"""

import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from autofgl.errors import FederationError, PayloadError, UserError
from autofgl.federation import Traffic, require
from autofgl.federation.checkpoints import CheckpointError
from autofgl.federation.engines.nvflare.line import Answer, JobLine
from autofgl.federation.party import Failure, Replies
from autofgl.federation.payload import Payload, decode, encode

#: Seconds without a sign of life after which a site counts as lost.
PATIENCE_S = 30.0
#: Largest answer of a site that the coordinator reads, in bytes; sites have ``max_message``.
LARGEST_ANSWER = 1 << 31
#: Seconds between two looks for sites that come back.
_LOOK_S = 2.0
_DIGEST = re.compile(r"[0-9a-f]{64}")


class NVFlare:
    """A federation over a running job.

    Args:
        folder: Where the coordinator keeps its own part of checkpoints.
        patience: Seconds without a sign of life after which a site counts as lost.
        keep_job: Whether the job goes on when the federation is closed, for another one.
        connected: Which sites are connected, and when each was last seen, to notice those that
            come back.
        absent: Sites of the run that are not there, and may come back.
        limit: Largest answer that is read, in bytes; a site that sends more has failed.
    """

    def __init__(
        self,
        line: JobLine,
        parties: Sequence[str],
        *,
        folder: Path | None = None,
        patience: float = PATIENCE_S,
        keep_job: bool = False,
        connected: Callable[[], Mapping[str, float]] | None = None,
        absent: Sequence[str] = (),
        limit: int = LARGEST_ANSWER,
    ) -> None:
        self.meter = Traffic()
        self._line = line
        self.folder = folder
        self._parties = list(parties)
        self._keep_job = keep_job
        self._connected = connected
        self._returns: _ReturnWatch | None = None
        self._patience = patience
        self._limit = limit
        self._lost: dict[str, str] = {}
        for name in absent:
            self._expect(name)
        line.on_peer_traffic = lambda op, size: self.meter.count("peer", op, size)

    def hello(self, payload: Payload) -> dict[str, Payload]:
        """Greet all sites; each answers what must be clear before parties are built.

        A site that refuses is a ``UserError``, one that fails or is lost a ``FederationError``.
        """
        return self._control("@hello", payload)

    def open(self, payload: Payload) -> None:
        """Have every site build its party; raises as :meth:`hello` does."""
        self._control("@open", {**payload, "parties": list(self._parties)})

    @property
    def parties(self) -> Sequence[str]:
        """Names of the parties that take part, in order."""
        return tuple(self._parties)

    @property
    def lost(self) -> Mapping[str, str]:
        """Sites that are gone, and why; dropped ones too."""
        return dict(self._lost)

    @property
    def returned(self) -> Sequence[str]:
        """Lost sites that are connected to the server again."""
        return self._returns.seen if self._returns is not None else ()

    def call(
        self,
        op: str,
        payload: Payload | None = None,
        *,
        each: Mapping[str, Payload] | None = None,
        to: Collection[str] | None = None,
        timeout: float | None = None,
        min_ok: int | None = None,
    ) -> Replies:
        """See :class:`autofgl.federation.Federation`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        called, own = list(self._parties if to is None else to), each or {}
        common = encode(payload or {}) if any(name not in own for name in called) else b""
        futures: dict[str, Future[Answer]] = {}
        for name in called:
            if name in self._parties and name not in self._lost:
                sent = encode({**(payload or {}), **own[name]}) if name in own else common
                self.meter.count("down", op, len(sent))
                futures[name] = self._line.call(name, op, sent, timeout)
        return require(op, Replies.of(self._collect(op, called, futures, deadline)), min_ok)

    def drop(self, party: str) -> None:
        """Go on without a party."""
        if party in self._parties:
            self._parties.remove(party)

    def checkpoint(
        self, tag: str, run: str = "", timeout: float | None = None
    ) -> Mapping[str, str]:
        """Have every site keep its party's state."""
        asked = {"tag": tag, "run": run}
        answers = self._control("@checkpoint", asked, timeout=timeout, forgive=True)
        digests = {name: answer.get("digest") for name, answer in answers.items()}
        for name, digest in digests.items():
            if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
                raise FederationError(f"site {name} does not say which checkpoint it has kept")
        return {name: str(digest) for name, digest in digests.items()}

    def restore(
        self, tag: str, digests: Mapping[str, str], run: str = "", timeout: float | None = None
    ) -> None:
        """Have sites load the states that they kept, once all have verified them."""
        asked = {name: {"tag": tag, "run": run, "digest": digests[name]} for name in digests}
        answers = self._control("@verify", {}, list(digests), asked, timeout)
        for name, answer in answers.items():
            if answer.get("problem") != "":
                reason = str(answer.get("problem"))[:200]
                raise CheckpointError(f"checkpoint {tag} of site {name} {reason}", reason)
        self._control("@restore", {}, list(digests), asked, timeout)

    def forget(self, tag: str) -> None:
        """Have every site delete the state that it kept, and delete the coordinator's part."""
        self._control("@forget", {"tag": tag}, [n for n in self._parties if n not in self._lost])
        if self.folder is not None:
            shutil.rmtree(self.folder / tag, ignore_errors=True)

    def close(self) -> None:
        """End the job, unless it is kept."""
        if self._returns is not None:
            self._returns.stop()
        if not self._keep_job:
            self._line.close()

    def _control(
        self,
        op: str,
        payload: Payload,
        to: Sequence[str] | None = None,
        each: Mapping[str, Payload] | None = None,
        timeout: float | None = None,
        forgive: bool = False,
    ) -> dict[str, Payload]:
        """An operation of the engine itself; it is not part of the method's traffic.

        ``forgive`` sites that are lost or late: they are not in the answer.
        """
        called = self._parties if to is None else to
        own = each or {}
        futures = {
            name: self._line.call(name, op, encode({**payload, **own.get(name, {})}), timeout)
            for name in called
            if name not in self._lost
        }
        deadline = None if timeout is None else time.monotonic() + timeout
        replies = Replies.of(self._collect(op, called, futures, deadline, metered=False))
        for name, failure in replies.failed.items():
            if forgive and failure.kind in ("lost", "timeout"):
                continue
            if failure.kind == "refused":
                raise UserError(f"site {name} refuses: {failure.message}")
            raise FederationError(f"site {name} {failure.kind}: {failure.message}")
        return dict(replies.ok)

    def _collect(
        self,
        op: str,
        called: Sequence[str],
        futures: Mapping[str, "Future[Answer]"],
        deadline: float | None,
        metered: bool = True,
    ) -> dict[str, Payload | Failure]:
        watch = _LifeWatch(self._line, futures, self._patience)
        outcomes: dict[str, Payload | Failure] = {}
        for name in called:
            if name not in futures:
                gone = self._lost.get(name, "is no longer part of the federation")
                outcomes[name] = Failure("lost", gone)
                continue
            answer = watch.wait(name, deadline)
            if answer is None:
                outcomes[name] = Failure("timeout", f"no answer to '{op}' in time")
            elif answer.kind == "ok":
                if metered:
                    self.meter.count("up", op, len(answer.data))
                try:
                    outcomes[name] = decode(answer.data, self._limit)
                except PayloadError as error:
                    outcomes[name] = Failure("exception", f"sent a malformed answer: {error}")
            else:
                outcomes[name] = Failure(answer.kind, answer.message)
                if answer.kind == "lost":
                    self._lose(name, answer.message)
        return outcomes

    def _lose(self, name: str, reason: str) -> None:
        self._lost[name] = reason
        self._expect(name)

    def _expect(self, name: str) -> None:
        """Notice when a site is connected again."""
        if self._connected is not None:
            self._returns = self._returns or _ReturnWatch(self._connected)
            self._returns.expect(name)


class _ReturnWatch:
    """Looks in the background whether lost sites are connected again."""

    def __init__(self, connected: Callable[[], Mapping[str, float]]) -> None:
        self._connected = connected
        self._lost_at: dict[str, float] = {}
        self._stop = threading.Event()
        self.seen: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._look, name="returns", daemon=True)
        self._thread.start()

    def expect(self, site: str) -> None:
        """Look for a site from now on."""
        self._lost_at.setdefault(site, time.time())

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(10)

    def _look(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                seen = self._connected()
            except FederationError:
                continue
            self.seen = tuple(
                name for name, lost in self._lost_at.items() if seen.get(name, 0.0) > lost + 1
            )


class _LifeWatch:
    """Waits for answers and gives up on sites that show no sign of life."""

    def __init__(
        self, line: JobLine, futures: Mapping[str, "Future[Answer]"], patience: float
    ) -> None:
        self._line = line
        self._futures = futures
        self._patience = patience
        self._alive_at = dict.fromkeys(futures, time.monotonic())
        self._asked_at = dict.fromkeys(futures, time.monotonic())

    def wait(self, name: str, deadline: float | None) -> Answer | None:
        """The answer; none at the deadline."""
        future = self._futures[name]
        while True:
            now = time.monotonic()
            left = self._patience / 4 if deadline is None else deadline - now
            try:
                return future.result(max(0.0, min(left, self._patience / 4)))
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    return None
            silent = time.monotonic() - self._alive_at[name]
            if silent > self._patience:
                return Answer("lost", f"gave no sign of life for {silent:.0f} s")
            self._ask()

    def _ask(self) -> None:
        now = time.monotonic()
        for name, future in self._futures.items():
            if not future.done() and now - self._asked_at[name] >= self._patience / 4:
                self._asked_at[name] = now
                ping = self._line.call(name, "@ping", encode({}), self._patience)
                ping.add_done_callback(partial(self._hear, name))

    def _hear(self, name: str, done: "Future[Answer]") -> None:
        if done.result().kind == "ok":
            self._alive_at[name] = time.monotonic()
