"""``autofgl site match`` over NVFlare: the sites find their edges, if their owners allow it."""

from pathlib import Path

import pytest

from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.processes import Loopback
from autofgl.graphs.files import load_graphs
from autofgl.sites.join import SiteConfig
from autofgl.sites.match import match_sites
from autofgl.sites.policy import Policy
from banks import BANKS, write_banks

pytest.importorskip("private_set_intersection.python")


@pytest.mark.slow
def test_sites_match_if_their_policies_allow_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_banks(tmp_path, abroad=0.3)
    for number, bank in enumerate(BANKS):
        more = [] if number else ["--label", "fraud", "--external"]
        words = ["import", f"{bank}_nodes.csv", f"{bank}_edges.csv"]
        _run([*words, "--write-schema", "schema.yaml", *more])
    for bank in BANKS:
        tables = [f"{bank}_nodes.csv", f"{bank}_edges.csv"]
        _run(["import", *tables, "--schema", "schema.yaml", "--out", f"{bank}.npz"])
    paths = [tmp_path / f"{bank}.npz" for bank in BANKS]
    with Loopback(list(BANKS)) as loopback:
        for bank, path in zip(BANKS, paths, strict=True):
            kit = loopback.kits.sites[bank]
            (kit / "local" / "policy.yaml").write_text("methods: [fedavg]\n")
            SiteConfig(
                name=bank, sites=BANKS, graph=str(path), state=str(tmp_path / "state"),
                policy=str(kit / "local" / "policy.yaml"),
            ).write(kit)  # fmt: skip
        loopback.start()
        kits = loopback.kits.server.parent
        (loopback.kits.server / "kit.yaml").write_text(f"site: ''\nsites: [{', '.join(BANKS)}]\n")
        before = [path.read_bytes() for path in paths]
        with pytest.raises(UserError, match="policy: allow: match is not allowed"):
            match_sites(kits, print)
        assert [path.read_bytes() for path in paths] == before
        allowing = Policy.of({"methods": ["fedavg"], "allow": ["match"]}).to_text()
        for kit in loopback.kits.sites.values():
            (kit / "local" / "policy.yaml").write_text(allowing)
        found = match_sites(kits, print)
    clients = load_graphs(paths)
    assert found == {client.name: len(client.boundary) for client in clients}
    assert sum(found.values()) > 60
    assert list(found) == list(BANKS)


def _run(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert not stopped.value.code, words
