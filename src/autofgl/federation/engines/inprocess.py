"""All parties in this process, one thread each, as many at once as there are cores."""

import ctypes
import logging
import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from autofgl.errors import FederationError
from autofgl.federation import Direction, Observer, Traffic, require
from autofgl.federation.checkpoints import Label, PartyStates
from autofgl.federation.party import (
    Context,
    Failure,
    Party,
    PartyFactory,
    PeerFailed,
    Replies,
    failure_of,
    one_torch_thread,
)
from autofgl.federation.payload import Payload, decode, encode, encoded_size, freeze
from autofgl.identity import GroupSecret

#: How long closing waits for parties that are still busy.
_PATIENCE_S = 5.0
#: ``M_ARENA_MAX`` of glibc's ``mallopt``.
_ARENA_MAX = -8
_log = logging.getLogger("autofgl.federation")
_NOT_PART = "is no longer part of the federation"

#: A token for each party that may run at once. A queue, since it hands over in C: a
#: ``threading.Semaphore`` took a fifth of a round of many small clients.
_Slots: TypeAlias = "queue.SimpleQueue[None]"


class InProcess:
    """The default engine. Arrays are handed over read-only, without a copy.

    Every party runs with one torch thread, so that its numbers do not depend on the machine's
    cores and are the same as in a process of its own.

    When it is strict, every payload is encoded and decoded, as a network would. So many workers run
    parties at the same time, or as many as there are cores. The observer is shown every message.
    The parties know each other by a secret, which is drawn anew for every federation if none is
    given. Their networks compute on the device of this name.
    """

    def __init__(
        self,
        factories: Mapping[str, PartyFactory],
        *,
        strict: bool = False,
        workers: int | None = None,
        folder: Path | None = None,
        observer: Observer | None = None,
        secret: bytes | None = None,
        device: str = "cpu",
    ) -> None:
        if not factories:
            raise FederationError("a federation needs at least one party")
        self.meter = Traffic()
        self._strict = strict
        self.folder = folder
        self._states = None if folder is None else PartyStates(folder)
        self._observer = observer
        slots: _Slots = queue.SimpleQueue()
        at_once = workers or len(os.sched_getaffinity(0))
        _share_memory(at_once)
        for _ in range(at_once):
            slots.put(None)
        self._actors = {name: _Actor(name, slots) for name in factories}
        self._dropped: list[_Actor] = []
        run = "" if folder is None else folder.absolute().parent.name
        secret = os.urandom(32) if secret is None else secret
        built = []
        for name, factory in factories.items():
            context = Context(
                name,
                tuple(factories),
                _Peers(self),
                run=run,
                identity=GroupSecret(name, secret),
                ledger=None if folder is None else folder / f"{quote(name, safe=' ')}.sums",
                device=device,
            )
            built.append(self._actors[name].do(partial(self._actors[name].build, factory, context)))
        try:
            for job in built:
                job.result()
        except BaseException:
            self.close()
            raise

    @property
    def parties(self) -> Sequence[str]:
        """Names of the parties that take part, in order."""
        return tuple(self._actors)

    @property
    def returned(self) -> Sequence[str]:
        """None: a thread does not come back."""
        return ()

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
        called = list(self._actors if to is None else to)
        jobs: dict[str, _Job] = {}
        for name in called:
            if actor := self._actors.get(name):
                sent = {**(payload or {}), **(each or {}).get(name, {})}
                received = self.carry("down", name, op, sent)
                jobs[name] = actor.do(partial(actor.party.handle, op, received))
        outcomes = {name: self._collect(name, op, jobs.get(name), deadline) for name in called}
        return require(op, Replies.of(outcomes), min_ok)

    def drop(self, party: str) -> None:
        """Go on without a party."""
        actor = self._actors.pop(party, None)
        if actor is not None:
            actor.stop()
            self._dropped.append(actor)

    def checkpoint(
        self, tag: str, run: str = "", timeout: float | None = None
    ) -> Mapping[str, str]:
        """Write every party's state to the engine's folder."""
        digests: dict[str, str] = {}

        def save(states: PartyStates, name: str, party: Party) -> None:
            digests[name] = states.save(Label(run, tag, name), party)

        late = self._on_all(save, self._actors, timeout)
        return {name: digests[name] for name in self._actors if name not in late}

    def restore(
        self, tag: str, digests: Mapping[str, str], run: str = "", timeout: float | None = None
    ) -> None:
        """Load parties' states from the engine's folder."""

        def verify(states: PartyStates, name: str, _: Party) -> None:
            states.verify(Label(run, tag, name), digests[name])

        def load(states: PartyStates, name: str, party: Party) -> None:
            states.restore(Label(run, tag, name), digests[name], party)

        for act in (verify, load):
            if late := self._on_all(act, digests, timeout):
                raise FederationError(f"{', '.join(late)} did not restore '{tag}' in time")

    def forget(self, tag: str) -> None:
        """Delete all that was kept under a tag."""
        if self.folder is not None:
            shutil.rmtree(self.folder / tag, ignore_errors=True)

    def close(self) -> None:
        """Stop all threads and wait for them: one that ends with the interpreter may abort it.

        A thread that is stuck in an operation is given a few seconds, then left behind.
        """
        for actor in self._actors.values():
            actor.stop()
        deadline = time.monotonic() + _PATIENCE_S
        for actor in [*self._actors.values(), *self._dropped]:
            actor.thread.join(max(0.0, deadline - time.monotonic()))

    def carry(self, direction: Direction, party: str, op: str, payload: Payload) -> Payload:
        """What the receiver gets of a payload; counted and observed on the way."""
        if self._strict:
            data = encode(payload)
            size, received = len(data), decode(data)
        else:
            received = freeze(payload)
            size = encoded_size(received)
        self.meter.count(direction, op, size)
        if self._observer is not None:
            self._observer(direction, party, op, received)
        return received

    def _collect(
        self, name: str, op: str, job: "_Job | None", deadline: float | None
    ) -> Payload | Failure:
        if job is None:
            return Failure("lost", _NOT_PART)
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return self.carry("up", name, op, job.result(left))
        except TimeoutError:
            job.release()
            return Failure("timeout", f"no answer to '{op}' in time")
        except _Lost as error:
            return Failure("lost", str(error))
        except Exception as error:
            _log.debug("%s fails in '%s'", name, op, exc_info=error)
            return failure_of(error)

    def _on_all(
        self,
        act: Callable[[PartyStates, str, Party], None],
        names: Collection[str],
        timeout: float | None,
    ) -> list[str]:
        """Act at some parties; who was lost or not done in time."""
        if self._states is None:
            raise FederationError("this federation has no folder for checkpoints")
        jobs = {
            name: actor.do(partial(act, self._states, name, actor.party))
            for name, actor in self._actors.items()
            if name in names
        }
        deadline = None if timeout is None else time.monotonic() + timeout
        late = []
        for name, job in jobs.items():
            try:
                job.result(None if deadline is None else max(0.0, deadline - time.monotonic()))
            except (TimeoutError, _Lost):
                job.release()
                late.append(name)
        return late


def _share_memory(threads: int) -> None:
    """Let threads take memory from no more pools than there are threads at work.

    The C library gives every thread a pool of its own that keeps what was freed: with many parties
    each would hold on to the activations of its last pass. Nothing to do where it has no pools.
    """
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, threads)


class _Peers:
    """``ctx.peers`` of the in-process engine: peer operations run in the caller's thread."""

    def __init__(self, engine: InProcess) -> None:
        self._engine = engine

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        actor = self._engine._actors.get(peer)
        if actor is None or not actor.alive:
            raise PeerFailed(peer, "lost", _NOT_PART)
        received = self._engine.carry("peer", peer, op, payload or {})
        try:
            reply = actor.party.handle(op, received, by_peer=True)
        except Exception as error:
            failure = failure_of(error)
            raise PeerFailed(peer, failure.kind, failure.message) from error
        return self._engine.carry("peer", peer, op, reply)


class _Lost(Exception):
    """The actor's thread is gone."""


class _Job:
    """One piece of work for an actor; it has a slot while it runs, unless it was given up.

    Its caller waits for a lock: a ``concurrent.futures.Future``, which has a condition in Python,
    took a tenth of a round of small clients.
    """

    def __init__(self, work: Callable[[], Payload | None], slots: _Slots) -> None:
        self._work = work
        self._slots = slots
        self._slot: list[None] = []  # one or none; only one of two threads can pop it
        self._given_up = False
        self._reply: Payload = {}
        self._error: BaseException | None = None
        self._running = threading.Lock()
        self._running.acquire()

    def run(self) -> None:
        self._slot.append(self._slots.get())
        try:
            if not self._given_up:
                self._reply = self._work() or {}
        except Exception as error:
            self._error = error
        except BaseException as error:  # the party's thread ends: it is lost
            self._error = _Lost(f"{type(error).__name__}: {error}")
            raise
        finally:
            self.release()
            self._running.release()

    def result(self, timeout: float | None = None) -> Payload:
        """What came of it; ``TimeoutError`` if that takes longer than so many seconds."""
        if not self._running.acquire(timeout=-1 if timeout is None else timeout):
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._reply

    def lose(self) -> None:
        """It will not run: its thread has ended."""
        self._error = _Lost("its thread has ended")
        self._running.release()

    def release(self) -> None:
        """It is done, or the caller waits no longer: let another party have the core."""
        self._given_up = True
        with suppress(IndexError):
            self._slots.put(self._slot.pop())


class _Actor:
    """A party and the thread that runs it."""

    party: Party

    def __init__(self, name: str, slots: _Slots) -> None:
        self.alive = True
        self._slots = slots
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._live, name=name, daemon=True)
        self.thread.start()

    def build(self, factory: PartyFactory, context: Context) -> None:
        self.party = factory(context)

    def do(self, work: Callable[[], Payload | None]) -> _Job:
        job = _Job(work, self._slots)
        self._jobs.put(job)
        if not self.alive:
            self._fail_waiting()
        return job

    def stop(self) -> None:
        self._jobs.put(None)

    def _fail_waiting(self) -> None:
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.lose()

    def _live(self) -> None:
        one_torch_thread()
        try:
            while (job := self._jobs.get()) is not None:
                job.run()
        except BaseException:  # reaches the caller through the job's future
            pass
        finally:
            self.alive = False
            self._fail_waiting()
