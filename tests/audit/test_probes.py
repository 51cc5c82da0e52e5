"""A server that cheats: probes say what it got, and that it was refused where it was."""

from typing import Any

import pytest

import autofgl
from autofgl.audit.probes import Probes
from autofgl.audit.verdict import Leak
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method
from autofgl.secure.keys import KeyRing


def probe(clients: list[ClientGraph], name: str, secure: str, **settings: Any) -> dict[str, Leak]:
    kind = find_method(name)
    checked = kind.Settings(rounds=3, hidden=8, **settings)
    leaks = list(Probes(kind, clients, checked, 0, secure).run())
    assert all(leak.who == "active server" for leak in leaks)
    return {leak.attack: leak for leak in leaks}


@pytest.mark.parametrize("name", ["fedavg", "fedgraph", "graphfl", "sfgnn"])
def test_shares_refuse_views_that_differ_keys_and_second_rounds(
    name: str, small_clients: list[ClientGraph]
) -> None:
    leaks = probe(small_clients, name, "shares")
    for attack in ("different views", "keys of its own", "a round made twice"):
        assert leaks[attack].verdict == "nothing", leaks[attack]
        assert leaks[attack].got.startswith("refused: "), leaks[attack]


def test_keys_that_nobody_signed_would_be_taken(
    small_clients: list[ClientGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe sees the attack where clients do not check: it is not refused by accident."""
    monkeypatch.setattr(KeyRing, "_signed", lambda *_: True)
    leaks = probe(small_clients, "fedavg", "shares")
    assert leaks["keys of its own"].verdict == "everything"


def test_one_client_alone_is_never_the_sum(small_clients: list[ClientGraph]) -> None:
    leaks = probe(small_clients, "fedavg", "shares", aggregate="parameters")
    for attack in ("one client trains", "the same weights twice", "export after a round"):
        assert leaks[attack].verdict == "nothing", leaks[attack]
        assert leaks[attack].got.startswith("refused: "), leaks[attack]


def test_a_threshold_below_all_lets_sums_differ_by_a_client(small_graph: ClientGraph) -> None:
    """A limit of every sum, which docs/security.md states: the server chooses the weights."""
    five = autofgl.partition(small_graph, clients=5, method="random", seed=0)
    how = {"aggregate": "parameters", "dropout": 0.0}
    leaks = probe(five, "fedavg", "shares", **how)
    assert leaks["the same weights twice"].verdict != "nothing"
    assert leaks["different views"].verdict == "nothing"
    all_of_them = probe(five, "fedavg", "shares", **how, secure_threshold=5)
    assert all_of_them["the same weights twice"].verdict == "nothing"


def test_without_secure_sums_there_is_no_need_to_cheat(small_clients: list[ClientGraph]) -> None:
    leaks = probe(small_clients, "fedavg", "none")
    assert [leak.verdict for leak in leaks.values()] == ["everything"]


def test_message_passing_of_sfgnn_is_not_exported(small_clients: list[ClientGraph]) -> None:
    leaks = probe(small_clients, "sfgnn", "shares")
    assert leaks["export after a round"].verdict == "nothing"
    assert leaks["one client trains"].verdict == "nothing"


def test_one_client_has_nobody_to_be_told_from(small_graph: ClientGraph) -> None:
    assert probe([small_graph], "fedavg", "none") == {}
