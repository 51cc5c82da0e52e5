"""The one job that NVFlare ever carries for us: a stub that names two of our classes.

Nothing of a run is in it. What a party is to do arrives as payloads, and is checked by the site's
own package. A site compares what it is sent with this stub and refuses everything else.
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import autofgl
from autofgl.errors import UserError

_ENGINES = "autofgl.federation.engines"
VALIDATOR = f"{_ENGINES}.nvflare_guard.OnlyOurJob"
BRIDGE = f"{_ENGINES}.nvflare_bridge.Bridge"
SITE = f"{_ENGINES}.nvflare_site.Site"
_CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
_EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"

#: Classes that a job may ask for.
ALLOWED = (BRIDGE, SITE, _CONTROLLER, _EXECUTOR)
CONFIG = "config"
CLIENT_FILE = "config_fed_client.json"
SERVER_FILE = "config_fed_server.json"
#: In a kit's ``local``: where the coordinator is found; what a site has and allows.
LINE_FILE = "line.json"
SITE_FILE = "site.json"
#: How many calls a party answers at once: operations queue anyway, peers and life signs do not.
THREADS = 16


def check_installed() -> None:
    """Refuse to begin without NVFlare.

    Raises:
        UserError: It is not installed; the message says how to.
    """
    if importlib.util.find_spec("nvflare") is None:
        raise UserError("this needs NVFlare: pip install 'autofgl[nvflare]'")


def client_config() -> dict[str, Any]:
    """What a site is sent."""
    executor = {
        "path": _EXECUTOR,
        "args": {"client_obj_id": "_client", "max_call_threads": THREADS},
    }
    return {
        "format_version": 2,
        "autofgl": autofgl.__version__,
        "executors": [{"tasks": ["*"], "executor": executor}],
        "components": [{"id": "_client", "path": SITE, "args": {}}],
    }


def server_config() -> dict[str, Any]:
    """What the server's own job process is sent."""
    controller = {
        "id": "controller",
        "path": _CONTROLLER,
        "args": {"server_obj_id": "_server", "max_call_threads": 128, "sync_task_timeout": 120},
    }
    return {
        "format_version": 2,
        "workflows": [controller],
        "components": [{"id": "_server", "path": BRIDGE, "args": {}}],
    }


def write_job(folder: Path, sites: Sequence[str]) -> Path:
    """A job for these sites, all of which must be there."""
    config = folder / "app" / CONFIG
    config.mkdir(parents=True, exist_ok=True)
    (config / CLIENT_FILE).write_text(json.dumps(client_config()))
    (config / SERVER_FILE).write_text(json.dumps(server_config()))
    meta = {
        "name": folder.name,
        "min_clients": len(sites),
        "mandatory_clients": list(sites),
        "deploy_map": {"app": ["server", *sites]},
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder
