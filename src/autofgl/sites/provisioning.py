"""Kits as operators handle them: made from a short YAML, one folder for each machine, and run."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from autofgl.atomic import write_text
from autofgl.config import check_device, validated
from autofgl.errors import AutoFGLError, UserError
from autofgl.federation.engines.nvflare.certificate import site_identity
from autofgl.federation.engines.nvflare.job import ServerSession, check_installed
from autofgl.federation.engines.nvflare.kits import Kits, make_kits, refresh_kit
from autofgl.federation.engines.nvflare.processes import running, start_kit, stop_kits
from autofgl.graphs.files import load_graph
from autofgl.runs.folder import read_config_file
from autofgl.sites.join import SiteConfig
from autofgl.sites.policy import POLICY_FILE, TEMPLATE, Policy

_KIT_FILE = "kit.yaml"


class Project(BaseModel):
    """The short YAML that a federation is made from; the CA is valid for some days.

    The sites reach the server by that name or address, at its one port.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    port: int = Field(default=8002, ge=1, le=65535)
    sites: tuple[str, ...] = Field(min_length=1)
    days: int = Field(default=360, ge=1)


@dataclass(frozen=True)
class Kit:
    """A machine's folder, its site's name (empty for the server), and the names of all sites."""

    path: Path
    site: str
    sites: Sequence[str]


def provision_kits(project: Path, out: Path) -> Kits:
    """Issue kits for the machines that a YAML file names; made again, with the same CA."""
    values = validated(Project, read_config_file(project), f"{project}: ")
    kits = make_kits(out, values.server, values.port, values.sites, values.days)
    for name, kit in {"": kits.server, **kits.sites}.items():
        note = {"site": name, "sites": list(values.sites)}
        write_text(kit / _KIT_FILE, yaml.safe_dump(note, sort_keys=False))
        if name and not (kit / POLICY_FILE).exists():
            write_text(kit / POLICY_FILE, TEMPLATE)
    return kits


def open_kit(path: Path, site: bool) -> Kit:
    """Read a site's kit or the server's, and bring its settings up to this version."""
    check_installed()
    if not (path / _KIT_FILE).is_file():
        raise UserError(f"{path} is no kit: make kits with autofgl site provision, or give --kit")
    values = read_config_file(path / _KIT_FILE)
    name = str(values.get("site", ""))
    if bool(name) != site:
        raise UserError(f"{path} is the kit of {'site ' + name if name else 'the server'}")
    refresh_kit(path)
    return Kit(path.absolute(), name, [str(each) for each in values.get("sites", ())])


def prepare_site(
    kit: Kit,
    graph: Path,
    policy: Path | None,
    state: Path | None,
    secret: Path | None = None,
    device: str = "auto",
) -> SiteConfig:
    """Note in a site's kit what it has and allows, after a look at it."""
    if policy is not None and not policy.is_file():
        raise UserError(f"{policy}: there is no such file")
    rules = (policy or kit.path / POLICY_FILE).absolute()
    Policy.read(rules)
    check_device(device)
    load_graph(graph)
    config = SiteConfig(
        name=kit.site,
        sites=tuple(kit.sites),
        graph=str(graph.absolute()),
        state=str((state or kit.path / "state").absolute()),
        policy=str(rules),
        secret=str(secret.absolute()) if secret is not None else "",
        device=device,
    )
    site_identity(kit.path, kit.site, config.secret)
    config.write(kit.path)
    return config


def init_policy(kit: Path, file: Path | None, rules: dict[str, Any], replace: bool) -> Path:
    """Write a site's policy; what the rules leave out is strict. One that is there stays."""
    path = file or kit / POLICY_FILE
    if file is None and not (kit / _KIT_FILE).is_file():
        raise UserError(f"{kit} is no kit: make kits with autofgl site provision, or give --kit")
    if path.exists() and not replace and path.read_text() != TEMPLATE:
        raise UserError(f"{path} is there already: edit it, or give --replace")
    write_text(path, Policy.of(rules).to_text())
    return path


def run_kit(kit: Kit, tell: Callable[[str], None]) -> None:
    """Run the server or a site until it is asked to stop; its job processes end with it."""
    if running(kit.path):
        raise UserError(f"{kit.path} is running already: end it with autofgl site stop")
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: asked.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    child = start_kit(kit.path, kit.site)
    tell(f"{kit.site or 'server'}: started; the log is {kit.path / 'log.txt'}")
    try:
        while child.poll() is None and not asked:
            time.sleep(0.2)
    finally:
        stop_kits(kit.path)
        child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    stopped = asked or child.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    if child.returncode and not stopped:
        raise AutoFGLError(f"ended by itself: {_last_lines(kit.path / 'console.txt', 1)}")


def kit_logs(kit: Path, count: int) -> str:
    """The end of a kit's log and of its newest job's log."""
    jobs = sorted(kit.glob("*/log.txt"), key=lambda path: path.stat().st_mtime)
    return "\n".join(_last_lines(path, count) for path in (kit / "log.txt", *jobs[-1:]))


def site_status(coordinator: Path, sites: Sequence[str]) -> dict[str, str]:
    """Whether each site is connected to the server."""
    with closing(ServerSession(coordinator, 10.0)) as session:
        seen = session.connected()
    return {
        name: f"connected, heard {max(0.0, time.time() - seen[name]):.0f} s ago"
        if name in seen
        else "not connected"
        for name in [*sites, *sorted(set(seen) - set(sites))]
    }


def _last_lines(path: Path, count: int) -> str:
    if not path.is_file():
        return ""
    lines = path.read_text(errors="replace").splitlines()[-count:]
    # A log may have words of others in it, and they may mean something to a terminal.
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)
