"""Machines with addresses of their own, and a slow, lossy network between them.

Each machine is a network namespace with a TUN device. This process carries every packet from one
device to another: late, and some not at all. It needs root.
"""

import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_TUNSETIFF, _TUN_NO_PI = 0x400454CA, 0x1001
_NETWORK = "10.77.0"


class Network:
    """Namespaces that reach each other through this process only.

    Args:
        machines: Their names; the first gets address 1, and so on.
        delay: Seconds that a packet takes.
        loss: Share of packets that are lost.
    """

    def __init__(self, machines: Sequence[str], delay: float, loss: float) -> None:
        self.machines = {name: f"{_NETWORK}.{at}" for at, name in enumerate(machines, 1)}
        self._delay = delay
        self._loss = loss
        self._random = random.Random(0)
        self._devices: dict[bytes, int] = {}
        self.carried = self.dropped = 0
        #: Addresses of machines that reach nobody for now.
        self.cut: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        try:
            for name, address in self.machines.items():
                self._add(name, address)
        except BaseException:
            self.close()
            raise
        self._thread.start()

    def inside(self, machine: str) -> list[str]:
        """What to put before a command to run it on a machine."""
        return ["ip", "netns", "exec", _space(machine)]

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        for device in self._devices.values():
            os.close(device)
        for name in self.machines:
            subprocess.run(["ip", "netns", "del", _space(name)], check=False, capture_output=True)

    def _add(self, name: str, address: str) -> None:
        space, device = _space(name), f"tun{address.rpartition('.')[2]}-{os.getpid() % 10000}"
        _ip("netns", "add", space)
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        self._devices[bytes(int(part) for part in address.split("."))] = tun
        fcntl.ioctl(tun, _TUNSETIFF, struct.pack("16sH", device.encode(), _TUN_NO_PI))
        _ip("link", "set", device, "netns", space)
        _ip("-n", space, "addr", "add", f"{address}/24", "dev", device)
        for link in ("lo", device):
            _ip("-n", space, "link", "set", link, "up")

    def _carry(self) -> None:
        waiting: list[tuple[float, int, bytes]] = []
        with selectors.DefaultSelector() as selector:
            for device in self._devices.values():
                selector.register(device, selectors.EVENT_READ)
            while not self._stop.is_set():
                pause = waiting[0][0] - time.monotonic() if waiting else 0.1
                for key, _ in selector.select(max(0.0, min(pause, 0.1))):
                    self._take(key.fd, waiting)
                self._deliver(waiting)

    def _take(self, device: int, waiting: list[tuple[float, int, bytes]]) -> None:
        with suppress(BlockingIOError):
            while True:
                packet = os.read(device, 65536)
                self.carried += 1
                ends = {".".join(map(str, packet[at : at + 4])) for at in (12, 16)}
                if self.cut & ends or self._random.random() < self._loss:
                    self.dropped += 1
                else:
                    due = time.monotonic() + self._delay
                    heapq.heappush(waiting, (due, self.carried, packet))

    def _deliver(self, waiting: list[tuple[float, int, bytes]]) -> None:
        while waiting and waiting[0][0] <= time.monotonic():
            packet = heapq.heappop(waiting)[2]
            target = self._devices.get(packet[16:20]) if packet[0] >> 4 == 4 else None
            if target is not None:
                with suppress(OSError):
                    os.write(target, packet)


def possible() -> bool:
    """Whether this process may make namespaces and TUN devices."""
    return os.geteuid() == 0 and Path("/dev/net/tun").exists()


def _space(machine: str) -> str:
    return f"autofgl-{os.getpid()}-{machine}"


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
