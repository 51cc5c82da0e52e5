"""All parties in this process, one thread each, as many at once as there are cores."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TypeAlias

import torch

from autofgl.errors import FederationError
from autofgl.federation.checkpoints import read_payload, remove_tag, write_payload
from autofgl.federation.federation import require
from autofgl.federation.party import Context, Failure, Party, PeerFailed, Replies, failure_of
from autofgl.federation.payload import Payload, decode, encode, encoded_size, freeze
from autofgl.federation.traffic import Direction, Observer, Traffic

#: How long closing waits for parties that are still busy.
_PATIENCE_S = 5.0

PartyFactory: TypeAlias = Callable[[Context], Party]


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
        self._observer = observer
        slots = _Slots(workers or len(os.sched_getaffinity(0)))
        self._actors = {name: _Actor(name, slots) for name in factories}
        self._dropped: list[_Actor] = []
        built = {
            name: self._actors[name].build(factory, Context(name, tuple(factories), _Line(self)))
            for name, factory in factories.items()
        }
        try:
            for future in built.values():
                future.result()
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
        called = self._called(to)
        jobs: dict[str, _Job] = {}
        for name in called:
            if name in self._actors:
                sent = {**(payload or {}), **(each or {}).get(name, {})}
                jobs[name] = self._actors[name].submit(op, self.carry("down", name, op, sent))
        ok: dict[str, Payload] = {}
        failed: dict[str, Failure] = {}
        for name in called:
            outcome = self._collect(name, op, jobs.get(name), deadline)
            if isinstance(outcome, Failure):
                failed[name] = outcome
            else:
                ok[name] = outcome
        return require(op, Replies(ok, failed), min_ok)

    def drop(self, party: str) -> None:
        """Go on without a party."""
        actor = self._actors.pop(party, None)
        if actor is not None:
            actor.stop()
            self._dropped.append(actor)

    def checkpoint(self, tag: str) -> None:
        """Write every party's state to the engine's folder."""
        folder = self._checkpoints()
        self._on_all(lambda name, party: write_payload(folder / tag / f"{name}.afp", party.state()))

    def restore(self, tag: str) -> None:
        """Load every party's state from the engine's folder."""
        folder = self._checkpoints()
        self._on_all(
            lambda name, party: party.load_state(read_payload(folder / tag / f"{name}.afp"))
        )

    def forget(self, tag: str) -> None:
        """Delete the states under a tag."""
        remove_tag(self._checkpoints(), tag)

    def close(self) -> None:
        """Stop all threads and wait for them: one that ends with the interpreter may abort it.

        A thread that is stuck in an operation is given a few seconds, then left behind.
        """
        for actor in self._actors.values():
            actor.stop()
        deadline = time.monotonic() + _PATIENCE_S
        for actor in [*self._actors.values(), *self._dropped]:
            actor.join(max(0.0, deadline - time.monotonic()))

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

    def call_peer(self, peer: str, op: str, payload: Payload) -> Payload:
        """Run a peer operation in the caller's thread."""
        actor = self._actors.get(peer)
        if actor is None or not actor.alive:
            raise PeerFailed(peer, "lost", "is not part of the federation any more")
        received = self.carry("peer", peer, op, payload)
        try:
            reply = actor.party.handle_peer(op, received)
        except Exception as error:
            failure = _failure(error)
            raise PeerFailed(peer, failure.kind, failure.message) from error
        return self.carry("peer", peer, op, reply)

    def _called(self, to: Collection[str] | None) -> list[str]:
        return list(self._actors) if to is None else list(to)

    def _collect(
        self, name: str, op: str, job: "_Job | None", deadline: float | None
    ) -> Payload | Failure:
        if job is None:
            return Failure("lost", "is not part of the federation any more")
        try:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            return self.carry("up", name, op, job.future.result(left))
        except FutureTimeoutError:
            job.give_up()
            return Failure("timeout", f"no answer to '{op}' in time")
        except Exception as error:
            return _failure(error)

    def _on_all(self, action: Callable[[str, Party], None]) -> None:
        jobs = {name: actor.run(action) for name, actor in self._actors.items()}
        for name, future in jobs.items():
            try:
                future.result()
            except _Lost as error:
                raise FederationError(f"{name} is lost: {error}") from error

    def _checkpoints(self) -> Path:
        if self._folder is None:
            raise FederationError("this federation has no folder for checkpoints")
        return self._folder


class _Line:
    """``ctx.peers`` of the in-process engine."""

    def __init__(self, engine: InProcess) -> None:
        self._engine = engine

    def call(self, peer: str, op: str, payload: Payload | None = None) -> Payload:
        return self._engine.call_peer(peer, op, payload or {})


class _Lost(Exception):
    """The actor's thread is gone."""


class _Slots:
    """Limits how many parties run at once; a slot may be given up while its holder still runs."""

    def __init__(self, count: int) -> None:
        # Hands over in C; a threading.Semaphore took a fifth of a round of many small clients.
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(count):
            self._free.put(None)

    def take(self, job: "_Job") -> None:
        self._free.get()
        with job.lock:
            job.holds_slot = not job.given_up
        if not job.holds_slot:
            self._free.put(None)

    def give_back(self, job: "_Job") -> None:
        with job.lock:
            held, job.holds_slot = job.holds_slot, False
        if held:
            self._free.put(None)


class _Job:
    """One piece of work for an actor."""

    def __init__(self, work: Callable[[], Payload | None], slots: _Slots) -> None:
        self.work = work
        self.future: Future[Payload] = Future()
        self.lock = threading.Lock()
        self.holds_slot = False
        self.given_up = False
        self._slots = slots

    def give_up(self) -> None:
        """The caller waits no longer: let another party have the core."""
        with self.lock:
            self.given_up = True
        self._slots.give_back(self)

    def do(self) -> None:
        self._slots.take(self)
        try:
            if not self.given_up:
                self.future.set_result(self.work() or {})
        except Exception as error:
            self.future.set_exception(error)
        except BaseException as error:  # the party's thread ends: it is lost
            self.future.set_exception(_Lost(f"{type(error).__name__}: {error}"))
            raise
        finally:
            self._slots.give_back(self)


class _Actor:
    """A party and the thread that runs it."""

    party: Party

    def __init__(self, name: str, slots: _Slots) -> None:
        self.alive = True
        self._name = name
        self._slots = slots
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def build(self, factory: PartyFactory, context: Context) -> "Future[Payload]":
        def work() -> None:
            self.party = factory(context)

        return self._enqueue(_Job(work, self._slots)).future

    def submit(self, op: str, payload: Payload) -> _Job:
        return self._enqueue(_Job(lambda: self.party.handle(op, payload), self._slots))

    def run(self, action: Callable[[str, Party], None]) -> "Future[Payload]":
        return self._enqueue(_Job(lambda: action(self._name, self.party), self._slots)).future

    def stop(self) -> None:
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _enqueue(self, job: _Job) -> _Job:
        self._jobs.put(job)
        if not self.alive:
            self._fail_waiting()
        return job

    def _fail_waiting(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.future.set_exception(_Lost("its thread has ended"))

    def _live(self) -> None:
        torch.set_num_threads(1)
        try:
            while (job := self._jobs.get()) is not None:
                job.do()
        except BaseException:  # told to the caller through the job's future
            pass
        finally:
            self.alive = False
            self._fail_waiting()


def _failure(error: BaseException) -> Failure:
    if isinstance(error, _Lost):
        return Failure("lost", str(error))
    return failure_of(error)
