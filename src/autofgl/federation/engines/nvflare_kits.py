"""Start-up kits: certificates of a new CA, and settings that leave a site nothing but our job.

A kit is a folder for one machine: ``startup/`` (certificates, address of the server) and ``local/``
(what that machine allows). NVFlare's own provisioning issues the certificates; the files below
``local/`` are ours. They are narrower than NVFlare's: no code travels with a job, no other
component than ours is ever built, a job is refused unless it is exactly our stub, and nobody runs
shell commands.
"""

import json
import re
import shutil
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from autofgl.atomic import write_text
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare_stub import ALLOWED, VALIDATOR, check_installed

#: Who submits jobs. There is one, on the server's machine.
COORDINATOR = "coordinator@autofgl.local"
_PROJECT = "autofgl"
_ORG = "autofgl"
_APP = "nvflare.app_common"
_CA_FILE = "cert.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True)
class Kits:
    """Where the kits of a federation are.

    Attributes:
        server: The server's kit.
        coordinator: The kit of who submits jobs.
        sites: The sites' kits by name.
        authority: The CA's key and certificate; keep it off line.
    """

    server: Path
    coordinator: Path
    sites: dict[str, Path]
    authority: Path


def make_kits(folder: Path, server: str, port: int, sites: Sequence[str], days: int = 360) -> Kits:
    """Make a CA, or use the one that is there already, and issue a kit for each machine.

    Args:
        folder: Where the kits are put; a ``ca`` in it is used again, so that sites can be added
            and certificates renewed.
        server: Name or address by which the sites reach the server.
        port: The one port that the server listens on.
        sites: Names of the sites.
        days: How long a new CA is valid.

    Raises:
        UserError: A name cannot be used, or NVFlare is not installed.
    """
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    check_installed()
    for name in sites:
        if not _NAME.fullmatch(name):
            raise UserError(f"'{name}' is no name for a site: use letters, digits, '-' and '_'")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    project = _project(server, port, sites, days)
    work = folder / ".work"
    authority = folder / "ca"
    state = work / _PROJECT / "state"
    shutil.rmtree(work, ignore_errors=True)
    try:
        if authority.exists():
            shutil.copytree(authority, state)
        with redirect_stdout(StringIO()):
            builders = prepare_builders(project)
            Provisioner(str(work), builders).provision(prepare_project(project))
        made = work / _PROJECT / "prod_00"
        kits = Kits(
            _install(made / server, folder / "server"),
            _install(made / COORDINATOR, folder / "coordinator", local=True),
            {name: _install(made / name, folder / "sites" / name) for name in sites},
            authority,
        )
        _keep_authority(state, authority)
    except (ValueError, RuntimeError) as error:
        raise UserError(f"cannot make kits: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    _restrict(kits)
    return kits


def _keep_authority(state: Path, authority: Path) -> None:
    """Keep the CA itself; what it has issued belongs to the kits alone."""
    whole = json.loads((state / _CA_FILE).read_text())
    authority.mkdir(mode=0o700, exist_ok=True)
    _write_json(authority / _CA_FILE, {key: whole[key] for key in ("root_cert", "root_pri_key")})
    (authority / _CA_FILE).chmod(0o600)


def _project(server: str, port: int, sites: Sequence[str], days: int) -> dict[str, Any]:
    def participant(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "org": _ORG, **more}

    impl = "nvflare.lighter.impl"
    return {
        "api_version": 3,
        "name": _PROJECT,
        "description": "AutoFGL",
        "participants": [
            participant(server, "server", fed_learn_port=port),
            *(participant(name, "client") for name in sites),
            participant(COORDINATOR, "admin", role="project_admin"),
        ],
        "builders": [
            {
                "path": f"{impl}.workspace.WorkspaceBuilder",
                "args": {"template_file": ["master_template.yml"]},
            },
            {
                "path": f"{impl}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "grpc"},
            },
            {"path": f"{impl}.cert.CertBuilder", "args": {"root_valid_days": days}},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }


def _install(source: Path, target: Path, local: bool = False) -> Path:
    """Put a new kit in its place; of one that is there already, only the certificates change.

    NVFlare's own ``local`` is taken over for the coordinator alone: it allows nobody anything.
    """
    target.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(target / "startup", ignore_errors=True)
    shutil.move(source / "startup", target / "startup")
    if local and not (target / "local").exists():
        shutil.move(source / "local", target / "local")
    for extra in ("*.sh", "*.ipynb", "*.txt"):
        for path in (target / "startup").glob(extra):
            path.unlink()
    return target


def _restrict(kits: Kits) -> None:
    """Write what each machine allows, and close the kits to other users."""
    for kit in (kits.server, *kits.sites.values()):
        refresh(kit)
    for kit in (kits.server, kits.coordinator, *kits.sites.values(), kits.authority):
        kit.chmod(0o700)
        for key in kit.rglob("*.key"):
            key.chmod(0o600)


def refresh(kit: Path) -> None:
    """Write what a machine allows, as this version of the package has it, wherever the kit is."""
    server = (kit / "startup" / "server.crt").exists()
    local = kit / "local"
    _write_json(local / "resources.json", _server_resources(kit) if server else _site_resources())
    _write_json(local / "authorization.json", _authorization())
    _write_json(local / "log_config.json", _log_config())


def _server_resources(kit: Path) -> dict[str, Any]:
    storage = f"{_APP}.storages.filesystem_storage.FilesystemStorage"
    jobs, snapshots = str(kit.absolute() / "jobs"), str(kit.absolute() / "snapshots")
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(ALLOWED),
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 100,
                "heart_beat_timeout": 30,
                "download_job_url": "http://localhost/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": f"{_APP}.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": storage, "args": {"root_dir": snapshots, "uri_root": "/"}},
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": f"{_APP}.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {"max_jobs": 1, "min_schedule_interval": 1.0, "max_schedule_interval": 5.0},
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": jobs, "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": storage},
            {
                "id": "process_launcher",
                "path": f"{_APP}.job_launcher.server_process_launcher.ServerProcessJobLauncher",
                "args": {},
            },
        ],
    }


def _site_resources() -> dict[str, Any]:
    resource = f"{_APP}.resource_managers.gpu_resource_manager.GPUResourceManager"
    consumer = f"{_APP}.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
    launcher = f"{_APP}.job_launcher.client_process_launcher.ClientProcessJobLauncher"
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(ALLOWED),
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30},
        "app_validator": {"path": VALIDATOR, "args": {}},
        "components": [
            {
                "id": "resource_manager",
                "path": resource,
                "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
            },
            {"id": "resource_consumer", "path": consumer, "args": {}},
            {"id": "process_launcher", "path": launcher, "args": {}},
        ],
    }


def _authorization() -> dict[str, Any]:
    granted = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate")
    denied = ("shell_commands", "byoc", "server-predeployed-flwr")
    rights = dict.fromkeys(granted, "any") | dict.fromkeys(denied, "none")
    return {"format_version": "1.0", "permissions": {"project_admin": rights}}


def _log_config() -> dict[str, Any]:
    """One file, ``log.txt``, in the kit and in each job's folder."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
                "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
            }
        },
        "handlers": {
            "logFileHandler": {
                "class": "logging.handlers.RotatingFileHandler",
                "level": "INFO",
                "formatter": "plain",
                "filename": "log.txt",
                "mode": "a",
                "maxBytes": 20 << 20,
                "backupCount": 5,
            }
        },
        "loggers": {
            "root": {"level": "INFO", "handlers": ["logFileHandler"]},
            "nvflare.collab": {"level": "WARNING"},
        },
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")
