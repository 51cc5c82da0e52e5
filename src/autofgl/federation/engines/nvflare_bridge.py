"""The server's side of an NVFlare job: passes messages between the coordinator and the sites.

The coordinator is a process of its own on the server's machine; it outlives jobs. The bridge
connects to it over a local socket, whose address lies in the server's kit, and
ends the job when the coordinator goes. It reads no payload.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.call_opt import CallOption

from autofgl.federation.engines.nvflare_calls import call_dispatch
from autofgl.federation.engines.nvflare_stub import LINE_FILE
from autofgl.federation.frames import join, split
from autofgl.federation.payload import Payload
from autofgl.federation.pipe import Pipe

#: A call without a timeout: the coordinator watches for signs of life instead.
_FOREVER = 30 * 86400.0


class Bridge:
    """What NVFlare builds in the server's job process."""

    def _main(self) -> None:
        root = Path(collab.workspace.get_root_dir())
        address = json.loads((root / "local" / LINE_FILE).read_text())["address"]
        proxies = {proxy.name: proxy for proxy in collab.context.clients}
        pool = ThreadPoolExecutor(128, "calls")
        pipe = Pipe.connect(address)
        pipe.send(join({"id": 0, "kind": "ready", "message": ""}))
        with suppress(EOFError, OSError):
            while True:
                note, data = split(pipe.receive())
                pool.submit(self._call, pipe, proxies[note["party"]], note, data)
        pipe.close()
        pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, pipe: Pipe, proxy: Any, note: Payload, data: bytes) -> None:
        timeout = note["timeout"] or _FOREVER
        answer = call_dispatch(proxy, CallOption(timeout=timeout), note["op"], data)
        told = {"id": note["id"], "kind": "ok", "message": ""}
        if not isinstance(answer, bytes):
            told |= {"kind": answer.kind, "message": answer.message}
            answer = b""
        with suppress(OSError):
            pipe.send(join(told, answer))

    main = collab.main(_main)
