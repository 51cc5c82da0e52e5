"""Kits on disk, as operators handle them: made from a short YAML, one folder for each machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from autofgl.atomic import write_text
from autofgl.config import read_config_file, validated
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare_kits import Kits, make_kits, refresh
from autofgl.federation.engines.nvflare_stub import check_installed
from autofgl.graphs.files import load_graph
from autofgl.sites.local import SiteConfig
from autofgl.sites.policy import TEMPLATE, Policy

_KIT_FILE = "kit.yaml"
_POLICY_FILE = "policy.yaml"


class Project(BaseModel):
    """The short YAML that a federation is made from.

    Attributes:
        server: Name or address by which the sites reach the server.
        port: The one port that the server listens on.
        sites: Names of the sites.
        days: How long the CA is valid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server: str
    port: int = Field(default=8002, ge=1, le=65535)
    sites: tuple[str, ...] = Field(min_length=1)
    days: int = Field(default=360, ge=1)


@dataclass(frozen=True)
class Kit:
    """A machine's folder.

    Attributes:
        path: The folder.
        site: The site's name; empty for the server.
        sites: Names of all sites.
    """

    path: Path
    site: str
    sites: Sequence[str]


def provision(project: Path, out: Path) -> Kits:
    """Issue kits for the machines that a YAML file names; made again, with the same CA.

    Raises:
        UserError: The file is wrong.
    """
    values = validated(Project, read_config_file(project), f"{project}: ")
    if len(set(values.sites)) < len(values.sites):
        raise UserError(f"{project}: sites: a name is given twice")
    kits = make_kits(out, values.server, values.port, values.sites, values.days)
    for name, kit in {"": kits.server, **kits.sites}.items():
        note = {"site": name, "sites": list(values.sites)}
        write_text(kit / _KIT_FILE, yaml.safe_dump(note, sort_keys=False))
        if name and not (kit / _POLICY_FILE).exists():
            write_text(kit / _POLICY_FILE, TEMPLATE)
    return kits


def open_kit(path: Path, site: bool) -> Kit:
    """Find a kit, and bring its settings up to this version.

    Raises:
        UserError: There is none, or it is another machine's.
    """
    check_installed()
    if not (path / _KIT_FILE).is_file():
        raise UserError(f"{path} is no kit: make kits with autofgl site provision, or give --kit")
    values = read_config_file(path / _KIT_FILE)
    name = str(values.get("site", ""))
    if bool(name) != site:
        raise UserError(f"{path} is the kit of {'site ' + name if name else 'the server'}")
    refresh(path)
    return Kit(path.absolute(), name, [str(each) for each in values.get("sites", ())])


def furnish(kit: Kit, graph: Path, policy: Path | None, state: Path | None) -> SiteConfig:
    """Note at a site what it has and allows, after a look at it.

    Raises:
        UserError: The graph or the policy cannot be used.
    """
    rules = (policy or kit.path / _POLICY_FILE).absolute()
    if policy is not None and not policy.is_file():
        raise UserError(f"{policy}: there is no such file")
    Policy.read(rules)
    load_graph(graph)
    config = SiteConfig(
        name=kit.site,
        graph=str(graph.absolute()),
        state=str((state or kit.path / "state").absolute()),
        policy=str(rules),
    )
    config.write(kit.path)
    return config
