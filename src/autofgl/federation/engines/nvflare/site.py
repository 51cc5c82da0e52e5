"""What NVFlare builds in its processes: a site's guard, a site's party, and the server's bridge.

The guard checks every job that the server sends: it must be exactly our stub. In a site's job
process one published ``dispatch`` answers for the party. The bridge, in the server's job process,
passes messages between the coordinator and the sites; it reads no payload.
"""

import importlib
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.collab import collab
from nvflare.collab.api.call_opt import CallOption
from nvflare.collab.api.exceptions import CollabCallError, RunAborted

from autofgl.federation.engines.nvflare.certificate import site_identity
from autofgl.federation.engines.nvflare.host import PartyHost, SiteBuilder
from autofgl.federation.engines.nvflare.job import (
    CLIENT_FILE,
    CONFIG,
    LINE_FILE,
    SERVER_FILE,
    SITE_FILE,
    client_config,
)
from autofgl.federation.engines.nvflare.line import Pipe, pack_message, unpack_message
from autofgl.federation.party import Failure, PeerFailed
from autofgl.federation.payload import Payload

#: NVFlare's signatures of the submitted files.
_SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}
#: A call without a timeout: the coordinator watches for signs of life instead.
_FOREVER = 30 * 86400.0


class JobGuard(AppValidator):  # type: ignore[misc]
    """Refuses any job but the stub, by content, whoever signed it."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """See NVFlare's ``AppValidator``: an error, or the empty text."""
        return refusal(Path(app_folder)), {}


def refusal(app: Path) -> str:
    """Why a job's folder is refused; empty if it is the stub."""
    files = {
        path.relative_to(app).as_posix()
        for path in app.rglob("*")
        if not path.is_dir() and path.name not in _SIGNATURES
    }
    extra = files - {f"{CONFIG}/{CLIENT_FILE}", f"{CONFIG}/{SERVER_FILE}"}
    if extra:
        return f"refused: the job brings files of its own: {', '.join(sorted(extra))}"
    try:
        theirs = json.loads((app / CONFIG / CLIENT_FILE).read_text())
    except (OSError, ValueError) as error:
        return f"refused: the job's configuration cannot be read: {error}"
    ours = client_config()
    if theirs == ours:
        return ""
    version = theirs.get("autofgl") if isinstance(theirs, dict) else None
    if version != ours["autofgl"]:
        return (
            f"refused: runs autofgl {ours['autofgl']}, the coordinator {version}: install the same"
        )
    return "refused: the job is not AutoFGL's stub"


class Site:
    """A site's part of a job.

    What the site owns and allows is read from ``local/site.json`` in its kit: the server can
    neither name nor read it. It names the function that builds parties, from the installed package,
    and that function checks the site's policy. Who the site is, its kit's certificate says.
    """

    def __init__(self) -> None:
        self._host: PartyHost | None = None
        self._app: Any = None
        self._config: dict[str, Any] = {}

    def _begin(self) -> None:
        self._app = collab.context.app
        kit, name = Path(collab.workspace.get_root_dir()), self._app.name
        self._config = json.loads((kit / "local" / SITE_FILE).read_text())
        module, _, kind = self._config["build"].partition(":")
        builder: SiteBuilder = getattr(importlib.import_module(module), kind)(self._config)
        identity = partial(site_identity, kit, name, self._config.get("secret", ""))
        folder = Path(self._config["state"])
        self._host = PartyHost(name, builder, folder, self._send, identity)

    def _dispatch(self, op: str, data: bytes) -> bytes:
        assert self._host is not None
        return self._host.answer(collab.caller, op, data)

    def _end(self) -> None:
        if self._host is not None:
            self._host.close()

    def _send(self, peer: str, op: str, data: bytes) -> bytes:
        proxies = {proxy.name: proxy for proxy in self._app.client_proxies}
        if peer not in proxies:
            raise PeerFailed(peer, "lost", "is not part of the federation")
        option = CallOption(timeout=self._config.get("peer_timeout", 60.0), secure=True)
        answer = _call_dispatch(proxies[peer], option, op, data)
        if isinstance(answer, bytes):
            return answer
        raise PeerFailed(peer, answer.kind, answer.message)

    begin = collab.init(_begin)
    dispatch = collab.publish(_dispatch)
    end = collab.final(_end)


class Bridge:
    """The server's part of a job.

    The coordinator is a process of its own on the server's machine; it outlives jobs. The bridge
    connects to it over a local socket, whose address is in the server's kit, and ends the job when
    the coordinator goes.
    """

    def _main(self) -> None:
        root = Path(collab.workspace.get_root_dir())
        address = json.loads((root / "local" / LINE_FILE).read_text())["address"]
        proxies = {proxy.name: proxy for proxy in collab.context.clients}
        pool = ThreadPoolExecutor(128, "calls")
        pipe = Pipe.connect(address)
        pipe.send(pack_message({"id": 0, "kind": "ready", "message": ""}))
        with suppress(EOFError, OSError):
            while True:
                note, data = unpack_message(pipe.receive())
                pool.submit(self._call, pipe, proxies[note["party"]], note, data)
        pipe.close()
        pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, pipe: Pipe, proxy: Any, note: Payload, data: bytes) -> None:
        option = CallOption(timeout=note["timeout"] or _FOREVER)
        answer = _call_dispatch(proxy, option, note["op"], data)
        reply = {"id": note["id"], "kind": "ok", "message": ""}
        if not isinstance(answer, bytes):
            reply |= {"kind": answer.kind, "message": answer.message}
            answer = b""
        with suppress(OSError):
            pipe.send(pack_message(reply, answer))

    main = collab.main(_main)


def _call_dispatch(proxy: Any, option: Any, op: str, data: bytes) -> bytes | Failure:
    """The answer of a party's ``dispatch`` through NVFlare, or why there is none."""
    try:
        answer = proxy.call_func(option, "dispatch", (), {"op": op, "data": data})
    except RunAborted:
        return Failure("lost", "the job was stopped")
    except CollabCallError as error:
        if isinstance(error.cause, TimeoutError):
            return Failure("timeout", f"no answer to '{op}' in time")
        return Failure("lost", f"cannot be reached: {error.cause}")
    if type(answer) is not bytes:
        return Failure("exception", f"answered with {type(answer).__name__} in place of bytes")
    return answer
