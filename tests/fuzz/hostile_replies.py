"""Hostile replies of one client, over all methods: ``python tests/fuzz/hostile_replies.py 10000``.

Tiny runs of every method, without protection and under ``shares``, in which clients answer as they
should for a while, until one of their replies is altered: a type, a shape, a number, a name, a
length, or all of it. Every run must come to its end, or end in one printable line; its figures and
weights must be some that a run can have, and its checkpoint must be whole. Clients that were
altered beyond what is allowed are left out, and then another one turns hostile, as long as enough
clients are left. The first one turns hostile at any point of the run, the earlier the likelier.
"""

import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

import autofgl
from autofgl.errors import AutoFGLError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.payload import Payload, decode, encode
from autofgl.graphs.catalog import DataSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.runtime.method import Method

_SEARCH = {"layers": 2, "rounds": 2, "types": "gcn,sage", "tune": 2, "finalists": 1, "inits": 1}
_CANDIDATES = {**_SEARCH, "candidates": 2, "candidate_rounds": 2}
_META = {"rounds": 2, "inner_steps": 1, "adapt_steps": 1}
#: The methods in their smallest form.
RUNS: dict[str, dict[str, Any]] = {
    "separate": {"rounds": 3},
    "fedavg": {"rounds": 4},
    "fedavg parameters": {"rounds": 4, "aggregate": "parameters", "local_epochs": 1},
    **{f"fedavg {way}": {"rounds": 3, "sharing": way, "personal_epochs": 2}
       for way in ("personal", "head", "encoder", "ditto", "across", "fedgta", "fed-pub")},
    "fedavg alone too": {"rounds": 2, "compare_alone": True, "compress": "int8"},
    "auto": {**_SEARCH, "trials": 2, "trial_rounds": 2, "recipes": 4, "ensemble": 2},
    "fl-agcns": {**_SEARCH, "population": 4, "generations": 2, "warmup": 1, "weight_steps": 1,
                 "codes_per_step": 2, "trials": 0, "known": False},
    "fl-agcns known": {**_SEARCH, "population": 4, "generations": 1, "warmup": 1,
                       "weight_steps": 1, "codes_per_step": 2, "trials": 2, "trial_rounds": 2},
    "fl-random": _CANDIDATES,
    "fl-rl": _CANDIDATES,
    "fl-darts": {**_SEARCH, "generations": 2, "trials": 2, "trial_rounds": 2},
    "fedgraph": {"rounds": 3},
    "fedgraph ddpg": {"rounds": 2, "sampler": "ddpg", "batch": 8, "episodes": 1, "warm_up": 1,
                      "episode_rounds": 2, "profile_rounds": 2},
    "graphfl": _META,
    "graphfl-ga": {**_META, "population": 2, "iterations": 1, "structure_after": 0},
    "sfgnn": {"rounds": 3, "collect_models": True},
    "asfgnn": {"rounds": 2, "trials": 2, "trial_rounds": 2, "startup": 1, "searcher": "random"},
}  # fmt: skip
CLIENTS = 7
#: Clients that turn hostile one after the other; secure sums need five of the seven.
MOST_HOSTILE = {"none": 4, "shares": 2}
TEXT = "\x1b[31m/home/me/graph.npz\n" * 40


class Traitor(Exception):
    """What a hostile client raises."""


class Hostility:
    """Alters replies of one client at a time."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.replies: Counter[str] = Counter()
        self.last = ""

    def alter(self, reply: Payload) -> Payload:
        """The reply with one thing altered, or something else altogether."""
        rng = self._rng
        if rng.random() < 0.1:
            raise rng.choice((Traitor, KeyError, ValueError, AutoFGLError))(TEXT)
        if rng.random() < 0.05:
            return self._odd()
        copy: Payload = decode(encode(reply))
        place: Any = copy
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys or rng.random() < 0.1:
                if isinstance(place, dict):
                    place[rng.choice(["more", "share", "metrics", TEXT])] = self._value()
                else:
                    place.append(self._value())
                break
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.8:
                place = place[key]
                continue
            if rng.random() < 0.1:
                del place[key]
            else:
                place[key] = self._changed(place[key])
            break
        return copy

    def _changed(self, value: Any) -> Any:
        rng = self._rng
        if rng.random() < 0.25:
            return self._value()
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, bytes):
            return rng.choice((value[:-1], value + b"x", b"", bytes(len(value))))
        if isinstance(value, str):
            return rng.choice(("", TEXT, value + "x"))
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return rng.choice((-1, 0, 1, value + 1, -value, 10**18, 1e300, float("nan"), 0.5))
        return self._value()

    def _array(self, value: Any) -> Any:
        rng = self._rng
        kinds: Sequence[Callable[[], Any]] = (
            lambda: value.reshape(-1)[:-1],
            lambda: np.concatenate([value.reshape(-1), value.reshape(-1)]),
            lambda: value.reshape(1, *value.shape),
            lambda: value.astype(rng.choice((np.float16, np.int8, np.uint64, np.bool_))),
            lambda: np.full_like(value, np.nan if value.dtype.kind == "f" else 7),
            lambda: np.full_like(value, 1e30 if value.dtype.kind == "f" else 2**7 - 1),
            lambda: value * -1000 if value.dtype.kind in "fi" else np.zeros_like(value),
            lambda: (
                np.frombuffer(rng.randbytes(value.nbytes), value.dtype).reshape(value.shape)
                if value.dtype.kind in "fiu"
                else ~value
            ),
        )
        with np.errstate(all="ignore"):
            return rng.choice(kinds)()

    def _value(self) -> Any:
        rng = self._rng
        return rng.choice(
            (-1, 0, 1.5, float("inf"), True, "", TEXT, b"", b"x" * 33, [], {}, [1, "a"],
             {"a": {"b": [1]}}, np.zeros(0), np.ones((2, 2), np.int32), 2**62)
        )  # fmt: skip

    def _odd(self) -> Payload:
        return self._rng.choice(({}, {"x": 1}, {"metrics": {}}, {"weights": np.ones(3)}))


class HostileEngine(InProcess):
    """Carries replies; one client's are altered now and then, until it is left out."""

    hostility: Hostility

    def begin(self, hostility: Hostility, rng: random.Random, honest: float, most: int) -> None:
        """From now on one client after the other is hostile, ``most`` of them, the first after so
        many ``honest`` replies.
        """
        self.hostility, self._random, self._hostile = hostility, rng, ""
        self._left, self._honest, self.answers = most, honest, 0
        self._share = rng.choice((0.25, 0.5, 1.0))  # of the replies of a hostile client
        for name, actor in self._actors.items():
            actor.party.handle = self._handler(name, actor.party.handle)  # type: ignore[method-assign]

    def _handler(self, name: str, handle: Callable[..., Payload]) -> Callable[..., Payload]:
        def answer(op: str, payload: Payload, by_peer: bool = False) -> Payload:
            reply = handle(op, payload, by_peer)
            self.answers += 1
            if self.answers <= self._honest:
                return reply
            if self._hostile not in self._actors and self._left:
                self._hostile = name
                self._left -= 1
            if by_peer or name != self._hostile or self._random.random() > self._share:
                return reply
            self.hostility.replies[op] += 1
            self.hostility.last = op
            return self.hostility.alter(reply)

        return answer


@cache
def small_clients() -> list[ClientGraph]:
    """Seven clients of a few nodes each."""
    small = DataSettings(nodes=84, classes=2, features=6, degree=4)
    graph = autofgl.load("synthetic", seed=1, settings=small)
    return autofgl.partition(graph, clients=CLIENTS, method="random", seed=0)


def federation_of(name: str, secure: str) -> tuple[HostileEngine, Method]:
    """A method of :data:`RUNS` with clients that may turn hostile."""
    kind = find_method(name.split()[0])
    small = {"dropout": 0.0} | ({} if name.startswith("graphfl-ga") else {"hidden": 4})
    settings = kind.Settings(**RUNS[name], **small)
    clients = small_clients()
    factories = {graph.name: kind.party(graph, settings, 0, secure) for graph in clients}
    federation = HostileEngine(factories)
    try:
        return federation, kind(federation, settings, 0, secure)
    except BaseException:
        federation.close()
        raise


@cache
def replies_of(name: str, secure: str) -> int:
    """How often clients reply in a run in which all are honest."""
    federation, method = federation_of(name, secure)
    try:
        federation.begin(Hostility(random.Random(0)), random.Random(0), math.inf, 0)
        _require(_finish(method) == "finished", "honest clients come to the end")
        return federation.answers
    finally:
        federation.close()


def hostile_run(name: str, secure: str, seed: int, replies: Counter[str]) -> str:
    """How a run ends: ``finished``, or the class of its error; raises if that must not be."""
    rng = random.Random(seed)
    honest = int(replies_of(name, secure) * rng.random() ** 2)
    federation, method = federation_of(name, secure)
    hostility = Hostility(rng)
    try:
        federation.begin(hostility, rng, honest, most=MOST_HOSTILE[secure])
        return _finish(method)
    except AutoFGLError as error:
        _require(str(error).isprintable() or "\n" not in str(error), f"one line: {error!r}")
        return type(error).__name__
    finally:
        replies.update({f"{name}/{secure}/{op}": n for op, n in hostility.replies.items()})
        federation.close()


def _finish(method: Method) -> str:
    method.connect()
    method.setup()
    while not method.done:
        row = method.step()
        for key, value in row.items():
            if key.endswith("_accuracy") and isinstance(value, float):
                _require(0 <= value <= 1, f"{key} is {value}")
            if key.endswith("_loss") and isinstance(value, float):
                _require(value >= 0, f"{key} is {value}")
    method.before_checkpoint()
    again = decode(encode(method.state()))
    method.load_state(again)
    outcome = method.finish()
    _require(0 <= outcome.test_accuracy <= 1, f"test accuracy is {outcome.test_accuracy}")
    for model in outcome.models.values():
        for value in model.values():
            _require(bool(np.isfinite(value).all()), "weights are not finite")
    for reason in method.clients.dropped.values():
        _require(reason.isprintable() and len(reason) <= 300, f"reason: {reason!r}")
    return "finished"


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def fuzz(count: int, seed: int = 0, report: bool = False) -> tuple[Counter[str], Counter[str]]:
    """Runs until so many replies were hostile: how the runs ended, and replies by operation."""
    ends, replies = Counter[str](), Counter[str]()
    cases = [
        (name, secure)
        for name in RUNS
        for secure in ("none", "shares")
        if name != "separate" or secure == "none"
    ]
    began, number = time.monotonic(), 0
    while sum(replies.values()) < count:
        name, secure = cases[number % len(cases)]
        number += 1
        where = f"{name} {secure} seed {seed + number}"
        try:
            end = hostile_run(name, secure, seed + number, replies)
        except AutoFGLError:
            raise
        except Exception as error:
            if not report:
                raise AssertionError(where) from error
            print(f"{where}: {type(error).__name__}: {error}", flush=True)
            end = "TRACEBACK"
        ends[f"{secure}: {end}"] += 1
        if report and number % 100 == 0:
            spent = time.monotonic() - began
            print(f"{number} runs, {sum(replies.values())} replies, {spent:.0f} s", flush=True)
    return ends, replies


if __name__ == "__main__":
    found, by_operation = fuzz(int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0]), report=True)
    for line, times in sorted(found.items()):
        print(f"{times:6d} runs {line}")
    kinds = Counter[str]()
    for place, times in by_operation.items():
        kinds[place.split("/")[0]] += times
    print(
        f"{sum(by_operation.values())} hostile replies of {len(by_operation)} operations: {kinds}"
    )
    sys.exit(any("TRACEBACK" in line for line in found))
