"""All parties in this process, one thread each, as many at once as there are cores."""

import os
import queue
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

from autofgl.errors import FederationError
from autofgl.federation.federation import Direction, Observer, Traffic, require
from autofgl.federation.party import (
    Context,
    Failure,
    Party,
    PartyFactory,
    PartyStates,
    PeerFailed,
    Replies,
    failure_of,
    one_torch_thread,
)
from autofgl.federation.payload import Payload, decode, encode, encoded_size, freeze

#: How long closing waits for parties that are still busy.
_PATIENCE_S = 5.0
_NOT_PART = "is not part of the federation any more"

#: A token for each party that may run at once. A queue, since it hands over in C: a
#: ``threading.Semaphore`` took a fifth of a round of many small clients.
_Slots: TypeAlias = "queue.SimpleQueue[None]"


class InProcess:
    """The default engine. Arrays are handed over read-only, without a copy.

    Every party runs with one torch thread, so that its numbers do not depend on the machine's
    cores and are the same as in a process of its own.

    Args:
        factories: Builds each party, by name.
        strict: Encode and decode every payload, as a network would.
        workers: Parties that run at the same time; all cores if not given.
        folder: Where parties keep their checkpoints.
        observer: Is shown every message.
    """

    def __init__(
        self,
        factories: Mapping[str, PartyFactory],
        *,
        strict: bool = False,
        workers: int | None = None,
        folder: Path | None = None,
        observer: Observer | None = None,
    ) -> None:
        if not factories:
            raise FederationError("a federation needs at least one party")
        self.meter = Traffic()
        self._strict = strict
        self._folder = folder
        self._states = None if folder is None else PartyStates(folder)
        self._observer = observer
        slots: _Slots = queue.SimpleQueue()
        for _ in range(workers or len(os.sched_getaffinity(0))):
            slots.put(None)
        self._actors = {name: _Actor(name, slots) for name in factories}
        self._dropped: list[_Actor] = []
        built = [
            self._actors[name].build(factory, Context(name, tuple(factories), _Peers(self)))
            for name, factory in factories.items()
        ]
        try:
            for job in built:
                job.future.result()
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
        """See :class:`autofgl.federation.federation.Federation`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        called = list(self._actors if to is None else to)
        jobs: dict[str, _Job] = {}
        for name in called:
            if name in self._actors:
                sent = {**(payload or {}), **(each or {}).get(name, {})}
                jobs[name] = self._actors[name].handle(op, self.carry("down", name, op, sent))
        outcomes = {name: self._collect(name, op, jobs.get(name), deadline) for name in called}
        return require(op, Replies.of(outcomes), min_ok)

    def drop(self, party: str) -> None:
        """Go on without a party."""
        actor = self._actors.pop(party, None)
        if actor is not None:
            actor.stop()
            self._dropped.append(actor)

    def checkpoint(self, tag: str) -> None:
        """Write every party's state to the engine's folder."""
        states = self._kept_states()
        self._on_all(lambda name, party: states.save(tag, name, party))

    def restore(self, tag: str) -> None:
        """Load every party's state from the engine's folder."""
        states = self._kept_states()
        self._on_all(lambda name, party: states.restore(tag, name, party))

    def forget(self, tag: str) -> None:
        """Delete all that was kept under a tag."""
        if self._folder is not None:
            shutil.rmtree(self._folder / tag, ignore_errors=True)

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

    def peer(self, name: str) -> Party:
        """A party, for a peer that calls it in its own thread."""
        actor = self._actors.get(name)
        if actor is None or not actor.alive:
            raise PeerFailed(name, "lost", _NOT_PART)
        return actor.party

    def _collect(
        self, name: str, op: str, job: "_Job | None", deadline: float | None
    ) -> Payload | Failure:
        if job is None:
            return Failure("lost", _NOT_PART)
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return self.carry("up", name, op, job.future.result(left))
        except FutureTimeoutError:
            job.give_up()
            return Failure("timeout", f"no answer to '{op}' in time")
        except _Lost as error:
            return Failure("lost", str(error))
        except Exception as error:
            return failure_of(error)

    def _on_all(self, action: Callable[[str, Party], None]) -> None:
        jobs = {name: actor.act(partial(action, name)) for name, actor in self._actors.items()}
        for name, job in jobs.items():
            try:
                job.future.result()
            except _Lost as error:
                raise FederationError(f"{name} is lost: {error}") from error

    def _kept_states(self) -> PartyStates:
        if self._states is None:
            raise FederationError("this federation has no folder for checkpoints")
        return self._states


class _Peers:
    """``ctx.peers`` of the in-process engine: peer operations run in the caller's thread."""

    def __init__(self, engine: InProcess) -> None:
        self._engine = engine

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        party = self._engine.peer(peer)
        received = self._engine.carry("peer", peer, op, payload or {})
        try:
            reply = party.handle_peer(op, received)
        except Exception as error:
            failure = failure_of(error)
            raise PeerFailed(peer, failure.kind, failure.message) from error
        return self._engine.carry("peer", peer, op, reply)


class _Lost(Exception):
    """The actor's thread is gone."""


class _Job:
    """One piece of work for an actor; it has a slot while it runs, unless it was given up."""

    def __init__(self, work: Callable[[], Payload | None], slots: _Slots) -> None:
        self.future: Future[Payload] = Future()
        self._work = work
        self._slots = slots
        self._lock = threading.Lock()
        self._has_slot = False
        self._given_up = False

    def run(self) -> None:
        self._slots.get()
        with self._lock:
            self._has_slot = True
        try:
            if not self._given_up:
                self.future.set_result(self._work() or {})
        except Exception as error:
            self.future.set_exception(error)
        except BaseException as error:  # the party's thread ends: it is lost
            self.future.set_exception(_Lost(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._give_slot_back()

    def give_up(self) -> None:
        """The caller waits no longer: let another party have the core."""
        self._given_up = True
        self._give_slot_back()

    def _give_slot_back(self) -> None:
        with self._lock:
            had_slot, self._has_slot = self._has_slot, False
        if had_slot:
            self._slots.put(None)


class _Actor:
    """A party and the thread that runs it."""

    party: Party

    def __init__(self, name: str, slots: _Slots) -> None:
        self.alive = True
        self._slots = slots
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._live, name=name, daemon=True)
        self.thread.start()

    def build(self, factory: PartyFactory, context: Context) -> _Job:
        def work() -> None:
            self.party = factory(context)

        return self._enqueue(work)

    def handle(self, op: str, payload: Payload) -> _Job:
        return self._enqueue(lambda: self.party.handle(op, payload))

    def act(self, action: Callable[[Party], None]) -> _Job:
        return self._enqueue(lambda: action(self.party))

    def stop(self) -> None:
        self._jobs.put(None)

    def _enqueue(self, work: Callable[[], Payload | None]) -> _Job:
        job = _Job(work, self._slots)
        self._jobs.put(job)
        if not self.alive:
            self._fail_waiting()
        return job

    def _fail_waiting(self) -> None:
        with suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.future.set_exception(_Lost("its thread has ended"))

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
