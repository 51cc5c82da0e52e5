"""A round of calls to three parties: in process, over NVFlare, and over bare gRPC.

    python benchmarks/engine.py [--rounds 200] [--repeats 5]

Every party answers with what it was sent: a tiny payload, or 4 MB. NVFlare and gRPC have a process
for each party and mutual TLS with the same certificates, all on this machine. The engines take
turns; figures are medians over the turns. MB/s counts both directions.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from autofgl.federation import Federation
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.processes import Loopback, free_port
from autofgl.federation.party import Context, Party
from autofgl.federation.payload import MAX_BYTES, Payload, decode, encode

NAMES = ("a", "b", "c")
TINY = {"round": 1}
LARGE = {"weights": np.zeros(1 << 20, np.float32)}
Round = Callable[[Payload], None]


class Echo(Party):
    operations: ClassVar[frozenset[str]] = frozenset({"echo"})

    def echo(self, payload: Payload) -> Payload:
        return payload


class EchoSite:
    """What a site's own file names as the builder of its party."""

    limit = MAX_BYTES

    def __init__(self, site: object) -> None:
        self.site = site

    def hello(self, payload: Payload) -> Payload:
        return payload

    def build(self, payload: Payload, context: Context) -> Party:  # noqa: ARG002
        return Echo()


def federated(federation: Federation) -> Round:
    def make(payload: Payload) -> None:
        assert len(federation.call("echo", payload).ok) == len(NAMES)

    return make


@contextmanager
def nvflare() -> Iterator[tuple[Round, Path]]:
    """The engine, and the folder with its certificates."""
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    )
    with Loopback(NAMES) as loopback, tempfile.TemporaryDirectory() as state:
        for kit in loopback.kits.sites.values():
            site = {"build": "engine:EchoSite", "state": state}
            (kit / "local" / "site.json").write_text(json.dumps(site))
        loopback.start()
        engine = NVFlare(loopback.line(), NAMES, keep_job=True)
        engine.open({"run": "benchmark"})
        yield federated(engine), loopback.folder


def serve(port: int, startup: Path) -> None:
    """A bare gRPC server that echoes, with mutual TLS."""
    import grpc

    credentials = grpc.ssl_server_credentials(
        [((startup / "server.key").read_bytes(), (startup / "server.crt").read_bytes())],
        (startup / "rootCA.pem").read_bytes(),
        require_client_auth=True,
    )
    echo = grpc.unary_unary_rpc_method_handler(lambda data, _: encode(decode(data)))
    server = grpc.server(ThreadPoolExecutor(4), options=_unlimited())
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("e", {"echo": echo}),))
    server.add_secure_port(f"localhost:{port}", credentials)
    server.start()
    server.wait_for_termination()


@contextmanager
def bare_grpc(kits: Path) -> Iterator[Round]:
    import grpc

    startup = kits / "sites" / "a" / "startup"
    credentials = grpc.ssl_channel_credentials(
        (startup / "rootCA.pem").read_bytes(),
        (startup / "client.key").read_bytes(),
        (startup / "client.crt").read_bytes(),
    )
    ports = [free_port() for _ in NAMES]
    server = str(kits / "server" / "startup")
    program = [sys.executable, __file__, "--serve", server, "--port"]
    processes = [subprocess.Popen([*program, str(port)]) for port in ports]
    try:
        calls = []
        for port in ports:
            channel = grpc.secure_channel(f"localhost:{port}", credentials, options=_unlimited())
            grpc.channel_ready_future(channel).result(180)
            calls.append(channel.unary_unary("/e/echo"))

        def make(payload: Payload) -> None:
            data = encode(payload)
            for future in [call.future(data) for call in calls]:
                decode(future.result())

        yield make
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _unlimited() -> list[tuple[str, int]]:
    return [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.max_reconnect_backoff_ms", 500),  # the servers may start slowly
    ]


def seconds(make: Round, payload: Payload, rounds: int) -> float:
    begin = time.perf_counter()
    for _ in range(rounds):
        make(payload)
    return (time.perf_counter() - begin) / rounds


def compare(engines: dict[str, Round], rounds: int, repeats: int) -> None:
    for title, payload, count in (("tiny", TINY, rounds), ("4 MB", LARGE, max(1, rounds // 20))):
        size = 2 * len(NAMES) * len(encode(payload))
        for make in engines.values():
            seconds(make, payload, 2)  # warm up
        turns = [
            {name: seconds(make, payload, count) for name, make in engines.items()}
            for _ in range(repeats)
        ]
        for name in engines:
            wall = statistics.median(turn[name] for turn in turns)
            best = min(turn[name] for turn in turns)
            print(
                f"{title} {name:17s} {1e3 * wall:9.3f} ms a round (best {1e3 * best:9.3f}), "
                f"{1 / wall:9.1f} rounds/s, {size / wall / 1e6:9.1f} MB/s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    arguments: Any = parser.parse_args()
    if arguments.serve:
        serve(arguments.port, arguments.serve)
        return
    with ExitStack() as stack:
        parties = dict.fromkeys(NAMES, lambda context: Echo())  # noqa: ARG005
        plain, strict = InProcess(parties), InProcess(parties, strict=True)
        stack.callback(plain.close)
        stack.callback(strict.close)
        over_nvflare, kits = stack.enter_context(nvflare())
        engines = {
            "in process": federated(plain),
            "in process, coded": federated(strict),
            "gRPC": stack.enter_context(bare_grpc(kits)),
            "NVFlare": over_nvflare,
        }
        compare(engines, arguments.rounds, arguments.repeats)


if __name__ == "__main__":
    main()
