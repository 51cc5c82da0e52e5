"""The site's side of the NVFlare engine: one published ``dispatch`` in the site's job process.

What the site owns and allows is read from ``local/site.json`` in its kit: the server can neither
name nor read it. It names the function that builds parties, from the installed package, and that
function checks the site's policy.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.call_opt import CallOption

from autofgl.federation.engines.nvflare_calls import call_dispatch
from autofgl.federation.engines.nvflare_stub import SITE_FILE
from autofgl.federation.host import Builder, PartyHost
from autofgl.federation.party import PeerFailed


class Site:
    """What NVFlare builds in a site's job process."""

    def __init__(self) -> None:
        self._host: PartyHost | None = None
        self._app: Any = None
        self._config: dict[str, Any] = {}

    def _begin(self) -> None:
        self._app = collab.context.app
        local = Path(collab.workspace.get_root_dir()) / "local"
        self._config = json.loads((local / SITE_FILE).read_text())
        module, _, name = self._config["build"].partition(":")
        builder: Builder = getattr(importlib.import_module(module), name)(self._config)
        folder = Path(self._config["state"])
        self._host = PartyHost(self._app.name, builder, folder, self._send)

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
        answer = call_dispatch(proxies[peer], option, op, data)
        if isinstance(answer, bytes):
            return answer
        raise PeerFailed(peer, answer.kind, answer.message)

    begin = collab.init(_begin)
    dispatch = collab.publish(_dispatch)
    end = collab.final(_end)
