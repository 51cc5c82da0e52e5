"""Policies of real sites over NVFlare: against a server that cheats, and as owners meet them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sites"))
from deployment import prepare
from operators import Operators

import autofgl
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.engine import NVFlare
from autofgl.federation.engines.nvflare.processes import Loopback
from autofgl.graphs.client_graph import ClientGraph
from autofgl.sites.policy import CLOSED, TEMPLATE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

STRICT = "methods: [fedavg, separate, sfgnn, fedgraph]\n"


@pytest.fixture(scope="module")
def cheat(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NVFlare]:
    """A coordinator that says what it likes to three sites with strict policies."""
    with Loopback([client.name for client in small_clients]) as loopback:
        prepare(loopback, small_clients, tmp_path_factory.mktemp("states"))
        for kit in loopback.kits.sites.values():
            (kit / "local" / "policy.yaml").write_text(STRICT)
        loopback.start()
        federation = NVFlare(loopback.line(), list(loopback.kits.sites), keep_job=True)
        yield federation
        federation.close()


def open_run(cheat: NVFlare, **more: Any) -> None:
    asked = {
        "run": "cheat", "method": "fedavg", "secure": "shares", "seed": 0, "classes": 3,
        "settings": {"rounds": 3}, "parties": list(cheat.parties),
    }  # fmt: skip
    cheat._control("@open", {**asked, **more})


def test_an_honest_run_is_opened(cheat: NVFlare) -> None:
    assert len(cheat.hello({"version": autofgl.__version__})) == 3
    open_run(cheat)
    assert not cheat.call("secure", {"phase": "nonsense", "message": {}}).ok


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ({"secure": "none"}, "secure: 'none' is not allowed"),
        ({"method": "separate"}, "secure: separate sums nothing that 'shares' protects"),
        ({"method": "separate", "secure": "none"}, "secure: 'none' is not allowed"),
        (
            {"method": "sfgnn", "settings": {"collect_models": True}},
            "allow: collect_models is not allowed",
        ),
        ({"method": "fedgraph", "settings": {"share": "all"}}, "allow: share=all is not allowed"),
        ({"settings": {"participation": 0.2}}, "min_parties: participation: a sum of 1"),
        ({"settings": {"rounds": 10**7}}, "max_rounds: # rounds are too many"),
        ({"settings": {"hidden": 10**7}}, "max_parameters: "),
        ({"classes": 10**9}, "max_classes: "),
    ],
)
def test_what_a_cheating_server_asks_for_is_refused(
    cheat: NVFlare, asked: dict[str, Any], rule: str
) -> None:
    with pytest.raises(UserError, match=f"site client-0 refuses: policy: {rule}"):
        open_run(cheat, **asked)
    refused = cheat.call("export", {}).failed
    assert {one.kind for one in refused.values()} == {"refused"}, "and there is no party"


def test_invented_parties_are_refused(cheat: NVFlare) -> None:
    ghosts = ["ghost-1", "ghost-2", "ghost-3"]
    with pytest.raises(UserError, match=r"policy: parties: 'ghost-1' is no site that is known"):
        open_run(cheat, parties=[*cheat.parties, *ghosts])
    with pytest.raises(UserError, match=r"min_parties|not among the parties"):
        open_run(cheat, parties=list(cheat.parties)[:2])
    with pytest.raises(UserError, match="two sites are called"):
        open_run(cheat, parties=[*cheat.parties, cheat.parties[0]])


@pytest.fixture(scope="module")
def operators(
    small_clients: list[ClientGraph], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operators]:
    federation = Operators(tmp_path_factory.mktemp("operators"), small_clients)
    try:
        federation.server()
        for name in federation.names:
            (federation.kit(name) / "policy.yaml").write_text(TEMPLATE)
            federation.join(name)
        yield federation
    finally:
        federation.close()


RUN = {"method": "fedavg", "secure": "shares", "settings": {"rounds": 3}}


def test_new_sites_refuse_until_their_owners_have_spoken(operators: Operators) -> None:
    first = operators.names[0]
    said = operators.finish(operators.submit("template", RUN), 2)
    assert f"site {first} refuses: {CLOSED}" in " ".join(said.split())
    for name in operators.names:
        (operators.kit(name) / "policy.yaml").unlink()
    said = operators.finish(operators.submit("missing", RUN), 2)
    assert f"site {first} refuses: {CLOSED}" in " ".join(said.split())
    for name in operators.names:
        kit = f"kits/sites/{name}"
        operators.finish(operators.do("init", "--kit", kit, "--methods", "fedavg"), 0)
    plain = operators.finish(operators.submit("plain", {**RUN, "secure": "none"}), 2)
    assert f"site {first} refuses: policy: secure: 'none' is not allowed" in " ".join(plain.split())
    operators.finish(operators.submit("allowed", RUN), 0)
    assert (operators.out("allowed") / "result.json").exists()
