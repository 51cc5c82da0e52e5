"""A site's own part of a run, by itself: no network, no process."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autofgl
from autofgl.errors import UserError
from autofgl.federation.party import Context, Refused
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graph
from autofgl.identity import GroupSecret
from autofgl.runtime.settings import FederatedSettings
from autofgl.sites.join import TEMPLATE, LocalSite, Policy, SiteConfig

NAMES = ("client-0", "client-1", "client-2")


class NoPeers:
    def call(self, peer: str, op: str, payload: Any = None) -> Any:
        raise AssertionError


@pytest.fixture
def config(small_clients: list[ClientGraph], tmp_path: Path) -> SiteConfig:
    path = tmp_path / "own.npz"
    save_graph(path, small_clients[0])
    return SiteConfig(
        name=NAMES[0],
        graph=str(path),
        state=str(tmp_path / "state"),
        policy=str(tmp_path / "policy.yaml"),
    )


def opening(**more: Any) -> dict[str, Any]:
    whole = {
        "run": "r", "method": "fedavg", "settings": {"rounds": 5}, "secure": "none", "seed": 0,
        "classes": 3,
    }  # fmt: skip
    return {**whole, **more}


def build(config: SiteConfig, **more: Any) -> Any:
    return LocalSite(config.model_dump()).build(
        opening(**more),
        Context(NAMES[0], NAMES, NoPeers(), identity=GroupSecret(NAMES[0], bytes(32))),
    )


def test_a_site_builds_its_party_from_its_own_graph(config: SiteConfig) -> None:
    party = build(config)
    assert "round" in party.operations
    hello = LocalSite(config.model_dump()).hello({"version": autofgl.__version__})
    assert hello == {"classes": 3, "features": 36}


@pytest.mark.parametrize(
    ("rules", "asked", "reason"),
    [
        ("methods: [fl-agcns]", {}, "method 'fedavg' is not among fl-agcns"),
        ("secure: [ckks, shares]", {}, "secure mode 'none' is not among ckks, shares"),
        ("max_rounds: 4", {}, "5 rounds are more than 4"),
        ("min_parties: 4", {}, "a sum of 3 parties"),
        ("min_parties: 3", {"secure": "shares"}, "a sum of 2 parties"),
        (
            "min_parties: 3",
            {"secure": "shares", "settings": {"secure_threshold": 2}},
            "a sum of 2 parties",
        ),
        ("", {"method": "nonsense"}, "method 'nonsense' is unknown here"),
        ("", {"settings": {"nonsense": 1}}, "nonsense"),
        ("", {"settings": {"rounds": -1}}, "rounds"),
        ("", {"secure": "nonsense"}, "unknown secure mode"),
        ("", {"classes": 1}, "label"),
    ],
)
def test_what_a_site_refuses(
    config: SiteConfig, rules: str, asked: dict[str, Any], reason: str
) -> None:
    Path(config.policy).write_text(rules)
    with pytest.raises(Refused, match=reason):
        build(config, **asked)


def test_a_threshold_satisfies_the_policy(config: SiteConfig) -> None:
    Path(config.policy).write_text("min_parties: 3\nsecure: [shares]\nmethods: [fedavg]\n")
    build(config, secure="shares", settings={"secure_threshold": 3})


def test_another_version_is_refused(config: SiteConfig) -> None:
    with pytest.raises(Refused, match=r"the coordinator 9\.9: install the same"):
        LocalSite(config.model_dump()).hello({"version": "9.9"})


def test_another_graph_is_refused_in_a_run_under_way(
    config: SiteConfig, small_clients: list[ClientGraph]
) -> None:
    build(config)
    relabeled = replace(small_clients[0], y=(small_clients[0].y + 1) % 3)
    save_graph(Path(config.graph), relabeled)
    with pytest.raises(Refused, match="not the one that this run was started on"):
        build(config)
    build(config, run="another")


# What a site allows.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("methods: [fedavgg]", "'fedavgg' is unknown"),
        ("secure: [rot13]", "'rot13' is unknown"),
        ("min_partys: 3", "min_partys"),
        ("min_parties: 0", "min_parties"),
        ("[", "not YAML"),
    ],
)
def test_policies_with_mistakes_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        Policy.read(tmp_path / "policy.yaml")


def test_the_template_allows_all_and_its_lines_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEMPLATE)
    assert Policy.read(path) == Policy()
    rules = [line[2:] for line in TEMPLATE.splitlines() if line.startswith("# ") and ": " in line]
    path.write_text("\n".join(line for line in rules if line.split(":")[0].isidentifier()))
    policy = Policy.read(path)
    assert policy.min_parties == 3
    assert policy.secure == ("ckks", "shares")
    with pytest.raises(Refused):
        policy.check("fedavg", "none", FederatedSettings(), 3)
