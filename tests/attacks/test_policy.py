"""A server against a site's policy: what it may ask for, and what it gets for an answer.

The site is the real one, :class:`LocalSite` behind the engine's :class:`PartyHost`; only the
network is left out. Each case is what a server did to the first version, where it worked.
"""

import itertools
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "sites"))
from deployment import OPEN

import autofgl
from autofgl import secure
from autofgl.errors import UserError
from autofgl.federation.engines.nvflare.host import PartyHost
from autofgl.federation.engines.nvflare.line import unpack_message
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.files import save_graph
from autofgl.identity import GroupSecret
from autofgl.methods.catalog import METHODS, settings_of
from autofgl.runtime import summing
from autofgl.sites.join import LocalSite, SiteConfig
from autofgl.sites.policy import CLOSED, TEMPLATE, Policy, disclosed

SITES = ("north", "south", "west", "east", "center")
ALL = ", ".join(METHODS)
STRICT = f"methods: [{ALL}]\n"
_runs = itertools.count()


class Server:
    """Says to a site whatever it likes."""

    def __init__(self, folder: Path, graph: ClientGraph, policy: str | None) -> None:
        save_graph(folder / "north.npz", graph)
        rules = folder / "policy.yaml"
        if policy is not None:
            rules.write_text(policy)
        config = SiteConfig(
            name="north",
            sites=SITES,
            graph=str(folder / "north.npz"),
            state=str(folder / "state"),
            policy=str(rules),
        )
        site = LocalSite(config.model_dump())
        identity = GroupSecret("north", bytes(32))
        self.host = PartyHost("north", site, folder / "state", lambda *_: b"", lambda: identity)

    def ask(self, op: str, payload: dict[str, Any]) -> tuple[str, Any]:
        note, body = unpack_message(self.host.answer("server", op, encode(payload)))
        return note["kind"], decode(body) if note["kind"] == "ok" else note["message"]

    def open(self, method: str, secure: str, **more: Any) -> tuple[str, Any]:
        asked: dict[str, Any] = {"parties": list(SITES), "settings": {}, "seed": 0, "classes": 3}
        about = {"run": f"run-{next(_runs)}", "method": method, "secure": secure}
        return self.ask("@open", {**asked, **about, **more})

    def refused(
        self, rule: str, method: str = "fedavg", secure: str = "shares", **more: Any
    ) -> str:
        kind, message = self.open(method, secure, **more)
        assert kind == "refused", message
        assert message.startswith(f"policy: {rule}: "), message
        assert "\n" not in message
        assert self.ask("start", {"stage": ""})[0] == "refused", "there is no party"
        return str(message)


@pytest.fixture
def graph(small_clients: list[ClientGraph]) -> ClientGraph:
    return small_clients[0]


@pytest.fixture
def server(tmp_path: Path, graph: ClientGraph) -> Server:
    return Server(tmp_path, graph, STRICT)


# Closed by default.


@pytest.mark.parametrize("policy", [None, "", "# nothing yet\n", TEMPLATE, "min_parties: 3\n"])
def test_a_site_without_rules_refuses_everything(
    tmp_path: Path, graph: ClientGraph, policy: str | None
) -> None:
    server = Server(tmp_path, graph, policy)
    for method, mode in itertools.product(METHODS, ("none", "shares")):
        assert server.open(method, mode) == ("refused", CLOSED)
    greeting = {"version": autofgl.__version__}
    assert server.ask("@hello", greeting) == ("refused", CLOSED), "not even its shape is told"
    assert "autofgl site init" in CLOSED
    assert "\n" not in CLOSED


@pytest.mark.parametrize("policy", ["secure: [", "nonsense: 1", "\x00", "a: &a [*a]", "[" * 9999])
def test_a_policy_that_cannot_be_read_refuses_everything(
    tmp_path: Path, graph: ClientGraph, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        server = Server(tmp_path, graph, policy)
    assert server.open("fedavg", "shares") == ("refused", CLOSED)
    assert str(tmp_path) in caplog.text, "the owner learns which file it is"


@pytest.mark.parametrize("rules", ["", "min_parties: 3\n", "min_parties: 1\n", "max_rounds: 0\n"])
def test_plain_runs_must_be_listed(tmp_path: Path, graph: ClientGraph, rules: str) -> None:
    server = Server(tmp_path, graph, STRICT + rules)
    server.refused("secure", secure="none")
    server.refused("secure", secure="ckks")
    assert server.open("fedavg", "shares")[0] == "ok"


def test_an_owner_who_lists_plain_runs_gets_them(tmp_path: Path, graph: ClientGraph) -> None:
    server = Server(tmp_path, graph, f"{STRICT}secure: [none]\n")
    assert server.open("fedavg", "none")[0] == "ok"
    server.refused("min_parties", secure="none", parties=["north", "south"])


# The label must be true.


@pytest.mark.parametrize("secure", ["shares", "ckks", "shares-additive"])
def test_a_method_that_sums_nothing_does_not_pass_as_secure(
    tmp_path: Path, graph: ClientGraph, secure: str
) -> None:
    server = Server(tmp_path, graph, f"{STRICT}secure: [shares, ckks, shares-additive]\n")
    assert "separate sums nothing" in server.refused("secure", "separate", secure)
    assert server.ask("export", {})[0] == "refused"


def test_pooling_is_no_method_of_a_site(tmp_path: Path, graph: ClientGraph) -> None:
    server = Server(tmp_path, graph, OPEN)
    server.refused("methods", "centralized", "none")


def test_the_sums_enforce_the_fewest_parties_themselves(
    tmp_path: Path, graph: ClientGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threshold of a mode is the server's word; the policy's reaches the sums themselves."""
    server = Server(tmp_path, graph, f"{STRICT}secure: [ckks, shares]\nmin_parties: 4\n")
    made: list[dict[str, Any]] = []

    def make_client(mode: str, **more: Any) -> Any:
        made.append({"mode": mode, **more})
        return secure.make_client(mode, **more)

    monkeypatch.setattr(summing, "make_client", make_client)
    for mode in ("ckks", "shares"):
        assert server.open("fedavg", mode)[0] == "ok"
    assert [(one["mode"], one["min_parties"]) for one in made] == [("ckks", 4), ("shares", 4)]


# Parties.


@pytest.mark.parametrize(
    "parties",
    [
        ["north", "ghost1", "ghost2", "ghost3", "ghost4"],
        ["north", "south", "ghost"],
        ["north", "south", "South"],
        ["north", "south", "west "],
    ],
)
def test_invented_parties_are_refused(server: Server, parties: list[str]) -> None:
    kind, message = server.open("fedavg", "shares", parties=parties)
    assert kind == "refused"
    assert "ghost" in message or "differ in case" in message or "no name" in message


@pytest.mark.parametrize(
    "parties",
    [
        ["north", "south", "south"],
        ["north", "server", "west"],
        ["north", "../x", "west"],
        ["south"],
    ],
)
def test_names_that_nobody_has_are_refused(server: Server, parties: list[str]) -> None:
    assert server.open("fedavg", "shares", parties=parties)[0] == "refused"


def test_a_policy_narrows_the_kit_down(tmp_path: Path, graph: ClientGraph) -> None:
    server = Server(tmp_path, graph, f"{STRICT}parties: [north, south, west, stranger]\n")
    assert server.open("fedavg", "shares", parties=["north", "south", "west"])[0] == "ok"
    assert "'east'" in server.refused("parties", parties=["north", "south", "west", "east"])
    assert "'stranger'" in server.refused("parties", parties=["north", "south", "stranger"])


def test_too_few_parties_are_refused(server: Server) -> None:
    server.refused("min_parties", parties=["north", "south"])


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {"participation": 0.2}),
        ("fedavg", {"participation": 0.4}),
        ("fedavg", {"secure_threshold": 2}),
        ("graphfl", {"participation": 0.2}),
        ("graphfl", {"new_clients": 1}),
        ("graphfl", {"new_clients": 3}),
    ],
)
def test_sums_of_too_few_are_refused_by_their_setting(
    server: Server, method: str, settings: dict[str, Any]
) -> None:
    (key,) = settings
    assert f"{key}: a sum of " in server.refused("min_parties", method, settings=settings)


# Settings that show more than sums.


@pytest.mark.parametrize(
    ("method", "settings", "name"),
    [
        ("sfgnn", {"collect_models": True}, "collect_models"),
        ("asfgnn", {"collect_models": True}, "collect_models"),
        ("fedgraph", {"share": "all"}, "share=all"),
        ("graphfl-ga", {"mode": "threshold"}, "mode=threshold"),
    ],
)
def test_what_shows_more_than_sums_needs_the_owners_word(
    tmp_path: Path, graph: ClientGraph, method: str, settings: dict[str, Any], name: str
) -> None:
    server = Server(tmp_path, graph, STRICT)
    assert name in server.refused("allow", method, settings=settings)
    assert server.open(method, "shares")[0] == "ok", "its defaults show no more"
    allowing = Server(tmp_path, graph, f"{STRICT}allow: [{name}]\n")
    assert allowing.open(method, "shares", settings=settings)[0] == "ok"


@pytest.mark.parametrize("method", METHODS)
def test_no_method_shows_more_than_sums_by_default(method: str) -> None:
    assert disclosed(settings_of(method)()) == []


def test_a_recipe_does_not_bring_in_what_the_opening_could_not(server: Server) -> None:
    """A message later the policy is the same: `start` may name other settings and networks."""
    assert server.open("sfgnn", "shares")[0] == "ok"
    kind, message = server.ask("start", {"stage": "", "settings": {"collect_models": True}})
    assert (kind, message) == ("refused", "policy: allow: collect_models is not allowed")
    kind, message = server.ask("start", {"stage": "", "settings": {"hidden": 10**9}})
    assert kind == "refused"
    assert server.ask("start", {"stage": "", "settings": 5})[0] == "refused"
    assert server.ask("start", {"stage": "", "settings": {"lr": 0.1}})[0] != "refused"


def test_a_recipes_network_has_a_limit(tmp_path: Path, graph: ClientGraph) -> None:
    server = Server(tmp_path, graph, f"{STRICT}max_parameters: 20_000\n")
    settings = {"hidden": 8, "layers": 2}
    assert server.open("fl-random", "shares", settings=settings)[0] == "ok"
    small = {"stage": "a-", "network": "relu | gcn<0 gcn<1 | identity"}
    assert server.ask("start", small)[0] != "refused"
    deep = " ".join(f"arma<{at}" for at in range(60))
    kind, message = server.ask("start", {"stage": "b-", "network": f"relu | {deep} | identity"})
    assert kind == "refused", message
    assert server.ask("start", {**small, "network": "relu | " + "gcn<0 " * 9999})[0] == "refused"


def test_files_of_the_server_are_none_of_the_site(server: Server, tmp_path: Path) -> None:
    """`policy` of fedgraph is a path: a site must not even look whether there is such a file."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"private")
    for path in (secret, tmp_path / "absent", Path("/dev/stdin")):
        asked = {"sampler": "ddpg", "policy": str(path), "server_graph": str(path)}
        assert server.open("fedgraph", "shares", settings=asked) == ("ok", {})


# Limits.


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedavg", {"rounds": 10**9}),
        ("fl-agcns", {"generations": 10**6}),
        ("fl-random", {"candidates": 10**6}),
        ("fl-rl", {"candidate_rounds": 10**6}),
        ("fl-darts", {"generations": 10**6}),
        ("asfgnn", {"trials": 10**6}),
        ("fedgraph", {"sampler": "ddpg", "episodes": 10**6}),
    ],
)
def test_rounds_count_those_of_a_search(
    server: Server, method: str, settings: dict[str, Any]
) -> None:
    server.refused("max_rounds", method, settings=settings)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].sums_securely])
def test_networks_have_a_limit_before_they_are_built(server: Server, method: str) -> None:
    wide = {"tune_hidden": "100000000"} if method == "asfgnn" else {"hidden": 10**8}
    if method.startswith("graphfl"):
        wide["model"] = "gcn"
    server.refused("max_parameters", method, settings=wide)
    assert server.open(method, "shares", settings={"hidden": 8})[0] == "ok"


def test_a_network_beyond_all_machines_is_refused_in_one_line(server: Server) -> None:
    kind, message = server.open("fl-agcns", "shares", settings={"hidden": 10**15})
    assert (kind, message) == ("refused", "a network of this size cannot be built")


def test_classes_have_a_limit(server: Server) -> None:
    server.refused("max_classes", classes=10**9)


def test_bytes_of_a_run_have_a_limit_over_restarts(tmp_path: Path, graph: ClientGraph) -> None:
    rules = f"{STRICT}secure: [none]\nmax_bytes: 100_000\n"
    served = []
    for _ in range(2):  # the second time the site's process is another one
        server = Server(tmp_path, graph, rules)
        assert server.open("fedavg", "none", run="long")[0] == "ok"
        answers = (server.ask("export", {}) for _ in range(1000))
        served.append(sum(1 for _ in itertools.takewhile(lambda one: one[0] == "ok", answers)))
        kind, message = server.ask("export", {})
        assert (kind, message.split(":")[1].strip()) == ("refused", "max_bytes")
    assert 1 <= served[0] <= 10
    assert served[1] == 0


# What a refusal tells.


def test_refusals_tell_no_paths_and_no_figures_of_the_site(
    tmp_path: Path, graph: ClientGraph, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(tmp_path, graph, f"{STRICT}max_rounds: 4321\nmax_parameters: 54_321\n")
    texts = [
        server.refused("max_rounds", settings={"rounds": 10**6}),
        server.refused("max_parameters", settings={"hidden": 10**6}),
        server.refused("secure", secure="none"),
    ]
    with caplog.at_level(logging.WARNING):
        kind, message = server.open("fedavg", "shares", classes=1)
    assert (kind, "site's log" in message) == ("refused", True)
    assert "labels are out of range" in caplog.text
    (tmp_path / "north.npz").write_bytes(b"damaged")
    kind, damaged = server.open("fedavg", "shares")
    greeting = server.ask("@hello", {"version": autofgl.__version__})[1]
    for text in (*texts, message, damaged, greeting):
        assert str(tmp_path) not in text
        told = set(re.findall(r"\d+", text))
        assert not {"4321", "54321", str(graph.num_nodes)} & told


def test_refused_runs_leave_nothing_at_the_site(server: Server, tmp_path: Path) -> None:
    for _ in range(10):
        server.refused("secure", secure="none")
    assert not list((tmp_path / "state").glob("*"))


def test_a_mistake_in_rules_is_the_owners_to_see(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("methods: [fedavg]\nsecure: [plain]\n")
    with pytest.raises(UserError, match="secure: 'plain' is unknown"):
        Policy.read(path)
