"""A site's own part of a run, by itself: no network, no process."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from deployment import OPEN

import autofgl
from autofgl.errors import UserError
from autofgl.federation.engines.inprocess import InProcess
from autofgl.federation.party import Context, Party, Refused
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graph
from autofgl.identity import GroupSecret
from autofgl.methods.baselines import FedAvg
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.sites.join import LocalSite, SiteConfig
from autofgl.sites.policy import TEMPLATE, Policy

NAMES = ("client-0", "client-1", "client-2")


class NoPeers:
    def call(self, peer: str, op: str, payload: Any = None) -> Any:
        raise AssertionError


@pytest.fixture
def config(small_clients: list[ClientGraph], tmp_path: Path) -> SiteConfig:
    path = tmp_path / "own.npz"
    save_graph(path, small_clients[0])
    (tmp_path / "policy.yaml").write_text(OPEN)
    return SiteConfig(
        name=NAMES[0],
        sites=NAMES,
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


def build(config: SiteConfig, parties: Sequence[str] = NAMES, **more: Any) -> Any:
    identity = GroupSecret(NAMES[0], bytes(32))
    context = Context(NAMES[0], tuple(parties), NoPeers(), identity=identity)
    return LocalSite(config.model_dump()).build(opening(**more), context)


def test_a_site_builds_its_party_from_its_own_graph(config: SiteConfig) -> None:
    party = build(config)
    assert "counts" in party.handle("start", {"stage": ""})
    hello = LocalSite(config.model_dump()).hello({"version": autofgl.__version__})
    assert hello == {"classes": 3, "features": 36}


PLAIN = "methods: [fedavg]\nsecure: [none]\n"


@pytest.mark.parametrize(
    ("rules", "asked", "reason"),
    [
        ("methods: [fl-agcns]", {}, "methods: 'fedavg' is not allowed"),
        ("methods: [fedavg]", {}, "secure: 'none' is not allowed"),
        (f"{PLAIN}max_rounds: 4", {}, "max_rounds: 5 rounds are too many"),
        (f"{PLAIN}min_parties: 4", {}, "min_parties: 3 parties are fewer"),
        (f"{PLAIN}max_parameters: 1000", {}, "max_parameters: 2563 parameters are too many"),
        (f"{PLAIN}max_classes: 2", {}, "max_classes: 3 classes are too many"),
        (PLAIN, {"method": "nonsense"}, "methods: 'nonsense' is not allowed"),
        (PLAIN, {"settings": {"nonsense": 1}}, "nonsense"),
        (PLAIN, {"settings": {"rounds": -1}}, "rounds"),
        (PLAIN, {"secure": "nonsense"}, "secure: 'nonsense' is not allowed"),
        (PLAIN, {"classes": 1}, "its graph does not fit this run: the reason is in the site's log"),
        (PLAIN, {"classes": "many"}, "opening: classes=many"),
        (PLAIN, {"seed": -1}, "opening: seed=-1"),
        (PLAIN, {"settings": 7}, "opening: settings=7"),
    ],
)
def test_what_a_site_refuses(
    config: SiteConfig, rules: str, asked: dict[str, Any], reason: str
) -> None:
    Path(config.policy).write_text(rules)
    with pytest.raises(Refused, match=reason):
        build(config, **asked)


NET = """
from torch_geometric.nn import GCNConv

class Net(GCNConv):
    def __init__(self, in_features, classes):
        super().__init__(in_features, classes, bias={bias})
"""


def test_a_model_is_the_sites_own_file_if_the_policy_lists_it(config: SiteConfig) -> None:
    folder = Path(config.policy).parent
    (folder / "nets").mkdir()
    (folder / "nets" / "net.py").write_text(NET.format(bias=False))
    (folder / "net.py").write_text(NET.format(bias=True))
    asked = {"settings": {"rounds": 5, "model": f"{folder}/net.py:Net"}}
    Path(config.policy).write_text(PLAIN)
    with pytest.raises(Refused, match=r"policy: models: 'net.py:Net' is not allowed"):
        build(config, **asked)
    Path(config.policy).write_text(f"{PLAIN}models: [other.py:Net, net.py:Other]")
    with pytest.raises(Refused, match="is not allowed"):
        build(config, **asked)
    Path(config.policy).write_text(f"{PLAIN}models: ['nets/net.py:Net']")
    party = build(config, **asked)
    party.handle("start", {"stage": ""})
    exported = party.handle("export", {})
    assert list(exported["weights"]) == ["lin.weight"]
    assert exported["spec"]["home"] == asked["settings"]["model"]
    with pytest.raises(Refused, match="is named when a run begins"):
        party.handle("start", {"stage": "b", "settings": {"model": "os:system"}})


def test_a_model_that_does_not_import_is_told_to_the_log_alone(config: SiteConfig) -> None:
    folder = Path(config.policy).parent
    (folder / "broken.py").write_text("raise RuntimeError('a secret of this site')")
    Path(config.policy).write_text(f"{PLAIN}models: ['broken.py:Net']")
    with pytest.raises(Refused, match="the reason is in the site's log") as refused:
        build(config, settings={"rounds": 5, "model": "broken.py:Net"})
    assert "secret" not in str(refused.value)


def test_a_threshold_satisfies_the_policy(config: SiteConfig) -> None:
    Path(config.policy).write_text("min_parties: 3\nsecure: [shares]\nmethods: [fedavg]\n")
    build(config, secure="shares", settings={"secure_threshold": 3})
    with pytest.raises(Refused, match="min_parties: secure_threshold: a sum of 2 parties"):
        build(config, secure="shares", settings={"secure_threshold": 2})


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


def test_whether_to_join_is_written_at_each_site_alone(
    small_clients: list[ClientGraph], tmp_path: Path
) -> None:
    """With secure sums the result says nothing of single clients, and each site has its page."""
    settings = FederatedSettings(rounds=2, hidden=4, sharing="personal", compare_alone=True)
    asked = opening(run="j", secure="shares", settings=settings.model_dump())

    def site_of(client: ClientGraph) -> SiteConfig:
        place = tmp_path / client.name
        place.mkdir()
        save_graph(place / "own.npz", client)
        (place / "policy.yaml").write_text(OPEN)
        graph, policy, state = (str(place / one) for one in ("own.npz", "policy.yaml", "state"))
        return SiteConfig(name=client.name, sites=NAMES, graph=graph, state=state, policy=policy)

    def factory(config: SiteConfig) -> Any:
        def built(context: Context) -> Party:
            return LocalSite(config.model_dump()).build(asked, context)

        return built

    sites = {client.name: site_of(client) for client in small_clients}
    federation = InProcess({name: factory(one) for name, one in sites.items()}, strict=True)
    method = FedAvg(federation, settings, 0, "shares")
    method.connect()
    method.setup()
    for _ in range(2):
        method.step()
    outcome = method.finish()
    federation.close()
    assert outcome.per_client == [{"name": name} for name in NAMES]
    for name in NAMES:
        pages = [path.name for path in (tmp_path / name / "state" / "j").glob("*.html")]
        assert pages == [f"{name}.join.html"]
        page = (tmp_path / name / "state" / "j" / pages[0]).read_text()
        assert f"{name}: should I join?" in page
        assert "right, the one that it trains alone" in page
        assert "common model" in page
        assert not any(other in page for other in NAMES if other != name)


# What a site allows.


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("methods: [fedavgg]", "'fedavgg' is unknown"),
        ("secure: [rot13]", "'rot13' is unknown"),
        ("min_partys: 3", "min_partys"),
        ("min_parties: 0", "min_parties"),
        ("[", "not YAML"),
        ("secure: []", "list at least one of"),
        ("methods: [fedavg]\nmethods: [separate]", "given twice"),
    ],
)
def test_policies_with_mistakes_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        Policy.read(tmp_path / "policy.yaml")


def test_the_template_is_strict_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TEMPLATE)
    policy = Policy.read(path)
    assert policy == Policy()
    assert policy.closed
    assert (policy.secure, policy.min_parties, policy.allow) == (("shares",), 3, ())
    limits = ("max_rounds", "max_parameters", "max_classes", "max_message", "max_bytes")
    assert all(getattr(policy, limit) > 0 for limit in limits)


def test_a_policy_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    rules = {
        "methods": ["fedavg", "/home/a b/own.py:Mine"],
        "allow": ["share=all"],
        "max_rounds": 5,
    }
    policy = Policy.of(rules)
    path.write_text(policy.to_text())
    assert Policy.read(path) == policy
