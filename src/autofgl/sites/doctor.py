"""What is to be looked at before a run: certificates, clock, ports, versions, schema, disk.

Every check says how things stand and, where something is wrong, what to do. Nothing is changed, and
nothing is sent but an empty connection to the server's port.
"""

import importlib.metadata
import json
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from packaging.requirements import Requirement

from autofgl.errors import AutoFGLError, UserError, one_line
from autofgl.federation.engines.nvflare.certificate import site_identity
from autofgl.federation.engines.nvflare.processes import running
from autofgl.graphs.files import load_graph
from autofgl.graphs.origin import read_origin
from autofgl.runs.folder import read_config_file
from autofgl.sites.policy import POLICY_FILE, Policy
from autofgl.version import __version__

OK, WARNING, WRONG = "ok", "look", "wrong"
#: Days before its end from which a certificate is worth a word.
_SOON = 30
#: Free bytes that checkpoints and logs of a long run may need.
_ROOM = 2 << 30
_PATIENCE_S = 3.0


@dataclass(frozen=True)
class Finding:
    """How one thing stands, and what to do about it."""

    what: str
    state: str
    text: str


def examine_kit(
    kit: Path,
    graph: Path | None = None,
    schema: Path | None = None,
    state: Path | None = None,
    now: datetime | None = None,
) -> list[Finding]:
    """All findings on a site's kit or the server's.

    Args:
        kit: Folder of the kit.
        graph: The site's graph file.
        schema: The schema that all sites agreed on, which the graph file has to have.
        state: Folder for checkpoints; the kit's own if not given.
        now: The time; this machine's if not given.
    """
    site = str(_note(kit).get("site", ""))
    moment = now or datetime.now(UTC)
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "versions": _versions,
        "certificate": lambda: _certificate(kit, site, moment),
        "keys": lambda: _keys(kit),
        "port": lambda: _port(kit, site),
        "disk": lambda: _disk(state or kit),
    }
    if site:
        checks["policy"] = lambda: _policy(kit)
        checks["graph"] = lambda: _graph(graph, schema)
    findings = []
    for what, check in checks.items():
        try:
            findings += list(check())
        except (AutoFGLError, OSError, ValueError, KeyError) as error:
            findings.append(Finding(what, WRONG, one_line(str(error), 500)))
    return findings


def _note(kit: Path) -> dict[str, Any]:
    path = kit / "kit.yaml"
    if not path.is_file():
        raise UserError(f"{kit} is no kit: make kits with autofgl site provision, or give --kit")
    return read_config_file(path)


def _versions() -> Iterator[Finding]:
    yield Finding("versions", OK, f"autofgl {__version__}: all machines need the same")
    needed = [Requirement(text) for text in importlib.metadata.requires("autofgl") or ()]
    wanted = next((one for one in needed if one.name == "nvflare"), None)
    try:
        found = importlib.metadata.version("nvflare")
    except importlib.metadata.PackageNotFoundError:
        text = "NVFlare is not installed: pip install 'autofgl[nvflare]'"
        yield Finding("versions", WRONG, text)
        return
    if wanted is not None and not wanted.specifier.contains(found):
        text = f"NVFlare {found} is not {wanted.specifier}: pip install 'autofgl[nvflare]'"
        yield Finding("versions", WRONG, text)
    else:
        yield Finding("versions", OK, f"NVFlare {found}")


def _certificate(kit: Path, site: str, now: datetime) -> Iterator[Finding]:
    """Whether certificates hold now; one that begins later means that a clock is wrong."""
    own = "client.crt" if site else "server.crt"
    for name in (own, "rootCA.pem"):
        data = (kit / "startup" / name).read_bytes()
        certificate = x509.load_pem_x509_certificate(data)
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if now < begin:
            late = f"{name} begins {begin:%Y-%m-%d %H:%M} UTC, and here it is {now:%Y-%m-%d %H:%M}"
            yield Finding("clock", WRONG, f"{late}: set this machine's clock (timedatectl)")
        elif now >= end:
            text = f"{name} ended on {end:%Y-%m-%d}: autofgl site provision renews the kits"
            yield Finding("certificate", WRONG, text)
        elif now > end - timedelta(days=_SOON):
            text = f"{name} ends on {end:%Y-%m-%d}: renew the kits with autofgl site provision"
            yield Finding("certificate", WARNING, text)
        else:
            yield Finding("certificate", OK, f"{name} holds until {end:%Y-%m-%d}")
    if site and now >= begin:
        site_identity(kit, site)


def _keys(kit: Path) -> Iterator[Finding]:
    open_ = [path for path in kit.rglob("*.key") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if open_:
        way = f"chmod 600 {open_[0]}"
        yield Finding("keys", WRONG, f"{open_[0].name} can be read by other users: {way}")
    else:
        yield Finding("keys", OK, "private keys are closed to other users")


def _port(kit: Path, site: str) -> Iterator[Finding]:
    """Whether a site reaches the server, or the server's port is free."""
    file = "fed_client.json" if site else "fed_server.json"
    config = json.loads((kit / "startup" / file).read_text())
    host, _, port = str(config["servers"][0]["service"]["target"]).rpartition(":")
    if site:
        try:
            socket.create_connection((host, int(port)), _PATIENCE_S).close()
        except OSError as error:
            way = "start it with autofgl site server, and let outgoing connections to it pass"
            text = f"the server {host}:{port} is not reached: {error.strerror or error}: {way}"
            yield Finding("port", WARNING, text)
        else:
            yield Finding("port", OK, f"the server {host}:{port} is reached")
        return
    if running(kit):
        yield Finding("port", OK, f"the server is running on port {port}")
        return
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("", int(port)))
        except OSError as error:
            way = "end what uses it, or provision another port"
            yield Finding("port", WRONG, f"port {port} cannot be used: {error.strerror}: {way}")
        else:
            yield Finding("port", OK, f"port {port} is free")


def _disk(folder: Path) -> Iterator[Finding]:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    enough = free >= _ROOM
    text = f"{free / 1e9:.1f} GB free at {there}"
    more = "" if enough else ": checkpoints of a long run may need 2 GB, make room"
    yield Finding("disk", OK if enough else WARNING, text + more)


def _policy(kit: Path) -> Iterator[Finding]:
    policy = Policy.read(kit / POLICY_FILE)
    if policy.closed:
        way = f"autofgl site init --kit {kit}"
        yield Finding("policy", WARNING, f"it allows nothing yet, every run is refused: {way}")
        return
    allowed = f"methods {', '.join(policy.methods)}; secure {', '.join(policy.secure)}"
    yield Finding("policy", OK, f"{allowed}; at least {policy.min_parties} sites")


def _graph(graph: Path | None, schema: Path | None) -> Iterator[Finding]:
    if graph is None:
        yield Finding("graph", WARNING, "not looked at: give --graph own.npz")
        return
    loaded = load_graph(graph)
    sizes = f"{loaded.num_nodes:,} nodes, {loaded.num_features} features, {loaded.classes} classes"
    yield Finding("graph", OK, sizes)
    if schema is None:
        return

    from autofgl.tables.schema import Schema

    kept = read_origin(graph).schema
    same = bool(kept) and Schema.of_text(kept, str(graph)) == Schema.read(schema)
    if same:
        yield Finding("schema", OK, f"{graph.name} was made with this schema")
        return
    how = "another schema" if kept else "no schema"
    way = f"autofgl import NODES EDGES --schema {schema} --out {graph}"
    yield Finding("schema", WRONG, f"{graph.name} was made with {how}: {way}")
