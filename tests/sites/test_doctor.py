"""What a look at a kit says, and what to do."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from autofgl.cli import main
from autofgl.federation.engines.nvflare.kits import Kits
from autofgl.sites.doctor import OK, WARNING, WRONG, examine_kit
from autofgl.sites.provisioning import provision_kits
from autofgl.tables.intake import import_tables

pytest.importorskip("nvflare")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> Kits:
    folder = tmp_path_factory.mktemp("doctor")
    project = {"server": "localhost", "port": free_port(), "sites": ["north", "south"]}
    (folder / "sites.yaml").write_text(yaml.safe_dump(project))
    return provision_kits(folder / "sites.yaml", folder / "kits")


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    nodes = {"id": ["a", "b", "c"], "age": [1, 2, 3], "y": ["no", "yes", "no"]}
    imported = import_tables(nodes, {"src": ["a"], "dst": ["b"]}, label="y")
    (tmp_path / "schema.yaml").write_text(imported.schema.to_text())
    imported.save(tmp_path / "g.npz")
    return tmp_path / "g.npz"


def states(kit: Path, **more: object) -> dict[str, str]:
    """The worst state of each thing that was looked at."""
    order = (OK, WARNING, WRONG)
    worst: dict[str, str] = {}
    for one in examine_kit(kit, **more):  # type: ignore[arg-type]
        worst[one.what] = max(worst.get(one.what, OK), one.state, key=order.index)
    return worst


def test_a_new_site_lacks_its_server_and_its_policy(kits: Kits, graph: Path) -> None:
    north = kits.sites["north"]
    seen = states(north, graph=graph, schema=graph.with_name("schema.yaml"))
    assert (seen.pop("port"), seen.pop("policy")) == (WARNING, WARNING)
    assert seen.pop("disk") in (OK, WARNING)
    assert seen == dict.fromkeys(["versions", "certificate", "keys", "graph", "schema"], OK)


def test_a_server_that_listens_is_reached(kits: Kits) -> None:
    port = yaml.safe_load((kits.server.parents[1] / "sites.yaml").read_text())["port"]
    with socket.create_server(("localhost", port)):
        assert states(kits.sites["north"])["port"] == OK
        assert states(kits.server)["port"] == WRONG, "somebody else has it"
    assert states(kits.server)["port"] == OK


@pytest.mark.parametrize(
    ("days", "what", "state"),
    [(-2, "clock", WRONG), (400, "certificate", WRONG), (350, "certificate", WARNING)],
)
def test_certificates_and_the_clock(days: int, what: str, state: str, kits: Kits) -> None:
    now = datetime.now(UTC) + timedelta(days=days)
    assert states(kits.sites["south"], now=now)[what] == state


def test_another_schema_is_wrong(kits: Kits, graph: Path) -> None:
    schema = graph.with_name("schema.yaml")
    schema.write_text(schema.read_text().replace("mean: 2", "mean: 3"))
    assert states(kits.sites["north"], graph=graph, schema=schema)["schema"] == WRONG


def test_the_command_says_what_to_do(
    kits: Kits, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    north = kits.sites["north"]
    key = north / "startup" / "client.key"
    key.chmod(0o644)
    try:
        with pytest.raises(SystemExit) as stopped:
            main(["site", "doctor", "--kit", str(north), "--graph", str(tmp_path / "no.npz")])
    finally:
        key.chmod(0o600)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert "chmod 600" in shown.out
    assert "no.npz: there is no such file" in shown.out
    assert "2 of " in shown.err
    with pytest.raises(SystemExit) as stopped:
        main(["site", "doctor", "--kit", str(tmp_path)])
    assert stopped.value.code == 2
    assert "is no kit" in capsys.readouterr().err
