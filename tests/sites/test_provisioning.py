"""Kits as operators handle them: made, copied, renewed."""

import stat
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from autofgl.errors import UserError
from autofgl.federation.engines.nvflare import processes
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graph
from autofgl.sites.provisioning import kit_logs, open_kit, prepare_site, provision_kits

pytest.importorskip("nvflare")


def project(folder: Path, **more: object) -> Path:
    path = folder / "sites.yaml"
    path.write_text(yaml.safe_dump({"server": "localhost", "sites": ["north", "south"], **more}))
    return path


def certificate(kit: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((kit / "startup" / "client.crt").read_bytes())


def test_every_machine_gets_its_own_keys_and_nothing_else(tmp_path: Path) -> None:
    kits = provision_kits(project(tmp_path), tmp_path / "kits")
    keys = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.key"))
    assert keys == [
        "kits/coordinator/startup/client.key",
        "kits/server/startup/server.key",
        "kits/sites/north/startup/client.key",
        "kits/sites/south/startup/client.key",
    ]
    secret = [*tmp_path.rglob("*.key"), kits.authority / "cert.json"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert stat.S_IMODE((tmp_path / "kits").stat().st_mode) == 0o700
    kept = (kits.authority / "cert.json").read_text()
    assert kept.count("PRIVATE KEY") == 2
    assert not list(tmp_path.rglob("*.sh"))


def test_renewal_keeps_the_ca_and_what_a_site_has_written(tmp_path: Path) -> None:
    kits = provision_kits(project(tmp_path), tmp_path / "kits")
    north = kits.sites["north"]
    before, root = certificate(north), (north / "startup" / "rootCA.pem").read_bytes()
    (north / "policy.yaml").write_text("max_rounds: 5\n")
    (north / "state").mkdir()
    (north / "state" / "kept").touch()
    again = provision_kits(project(tmp_path, sites=["north", "south", "west"]), tmp_path / "kits")
    assert (north / "startup" / "rootCA.pem").read_bytes() == root
    assert certificate(north).serial_number != before.serial_number
    assert (north / "policy.yaml").read_text() == "max_rounds: 5\n"
    assert (north / "state" / "kept").exists()
    assert list(again.sites) == ["north", "south", "west"]
    assert open_kit(again.server, site=False).sites == ["north", "south", "west"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sites": ["a", "a"]}, "two sites are called 'a'"),
        ({"sites": ["north", "North"]}, "'north' and 'North' differ in case"),
        ({"sites": ["server"]}, "reserved"),
        ({"sites": ["Coordinator"]}, "reserved"),
        ({"sites": ["a b"]}, "no name for a site"),
        ({"sites": ["../up"]}, "no name for a site"),
        ({"sites": []}, "sites"),
        ({"port": 70000}, "port"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_projects_with_mistakes_are_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        provision_kits(project(tmp_path, **change), tmp_path / "kits")


def test_logs_are_shown_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("one\n\x1b[2Jtwo\x07 Köln\n")
    assert kit_logs(tmp_path, 5) == "one\n?[2Jtwo? Köln"


def test_a_site_looks_at_what_it_is_given(tmp_path: Path, small_clients: list[ClientGraph]) -> None:
    kits = provision_kits(project(tmp_path), tmp_path / "kits")
    with pytest.raises(UserError, match="is no kit"):
        open_kit(tmp_path, site=True)
    with pytest.raises(UserError, match="is the kit of the server"):
        open_kit(kits.server, site=True)
    with pytest.raises(UserError, match="is the kit of site north"):
        open_kit(kits.sites["north"], site=False)
    kit = open_kit(kits.sites["north"], site=True)
    with pytest.raises(UserError, match="there is no such file"):
        prepare_site(kit, tmp_path / "none.npz", None, None)
    save_graph(tmp_path / "own.npz", small_clients[0])
    (kit.path / "policy.yaml").write_text("methods: [nonsense]\n")
    with pytest.raises(UserError, match="'nonsense' is unknown"):
        prepare_site(kit, tmp_path / "own.npz", None, None)
    (kit.path / "policy.yaml").unlink()
    config = prepare_site(kit, tmp_path / "own.npz", None, None)
    assert config.name == "north"
    assert not processes.running(kit.path)
