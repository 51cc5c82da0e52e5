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
from string import Template
from typing import Any

from autofgl.atomic import write_text
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.job import ALLOWED, COORDINATOR, VALIDATOR, check_installed
from autofgl.identity import check_names

_PROJECT = "autofgl"
#: What a server and a site allow, and how they log: one file, ``log.txt``, in the kit and in each
#: job's folder.
_TEMPLATES = Path(__file__).parent / "templates"
_CA_FILE = "cert.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True)
class Kits:
    """Where the kits of a federation are; ``coordinator`` is the kit of who submits jobs."""

    server: Path
    coordinator: Path
    sites: dict[str, Path]
    #: The CA's key and certificate; keep it off line.
    authority: Path


def make_kits(folder: Path, server: str, port: int, sites: Sequence[str], days: int = 360) -> Kits:
    """Make a CA, or use the one that is there already, and issue a kit for each machine.

    A ``ca`` in the folder is used again, so that sites can be added and certificates renewed. The
    server has one port and is reached by that name or address; a new CA is valid for some days.
    """
    check_installed()
    for name in sites:
        if not _NAME.fullmatch(name):
            raise UserError(f"'{name}' is no name for a site: use letters, digits, '-' and '_'")
    check_names(sites, "site")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    work, authority = folder / ".work", folder / "ca"
    shutil.rmtree(work, ignore_errors=True)
    try:
        made = _provision(work, _project(server, port, sites, days), authority)
        kits = Kits(
            _install(made / server, folder / "server"),
            _install(made / COORDINATOR, folder / "coordinator", local=True),
            {name: _install(made / name, folder / "sites" / name) for name in sites},
            authority,
        )
    except (ValueError, RuntimeError) as error:
        raise UserError(f"cannot make kits: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for kit in (kits.server, *kits.sites.values()):
        refresh_kit(kit)
    for kit in (kits.server, kits.coordinator, *kits.sites.values(), kits.authority):
        kit.chmod(0o700)  # closed to other users
        for key in kit.rglob("*.key"):
            key.chmod(0o600)
    return kits


def _provision(work: Path, project: dict[str, Any], authority: Path) -> Path:
    """Have NVFlare issue everything; keep the CA itself, the rest belongs to the kits alone."""
    from nvflare.lighter.prov_utils import prepare_builders
    from nvflare.lighter.provision import prepare_project
    from nvflare.lighter.provisioner import Provisioner

    state = work / _PROJECT / "state"
    if authority.exists():
        shutil.copytree(authority, state)
    with redirect_stdout(StringIO()):
        Provisioner(str(work), prepare_builders(project)).provision(prepare_project(project))
    whole = json.loads((state / _CA_FILE).read_text())
    authority.mkdir(mode=0o700, exist_ok=True)
    kept = {key: whole[key] for key in ("root_cert", "root_pri_key")}
    write_text(authority / _CA_FILE, json.dumps(kept, indent=2) + "\n")
    (authority / _CA_FILE).chmod(0o600)
    return work / _PROJECT / "prod_00"


def _project(server: str, port: int, sites: Sequence[str], days: int) -> dict[str, Any]:
    def participant(name: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "org": _PROJECT, **more}

    def builder(name: str, **arguments: Any) -> dict[str, Any]:
        return {"path": f"nvflare.lighter.impl.{name}", "args": arguments}

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
            builder("workspace.WorkspaceBuilder", template_file=["master_template.yml"]),
            builder("static_file.StaticFileBuilder", config_folder="config", scheme="grpc"),
            builder("cert.CertBuilder", root_valid_days=days),
            builder("signature.SignatureBuilder"),
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


def refresh_kit(kit: Path) -> None:
    """Write what a machine allows, as this version of the package has it, wherever the kit is."""
    kind = "server" if (kit / "startup" / "server.crt").exists() else "site"
    files = {
        f"{kind}.json": "resources.json",
        "authorization.json": "authorization.json",
        "log_config.json": "log_config.json",
    }
    values = {
        "allowed": json.dumps(ALLOWED),
        "validator": VALIDATOR,
        "kit": json.dumps(str(kit.absolute()))[1:-1],
    }
    for template, name in files.items():
        text = Template((_TEMPLATES / template).read_text()).substitute(values)
        write_text(kit / "local" / name, text)
