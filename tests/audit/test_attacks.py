"""What an honest server and a curious peer get, against the truth."""

from typing import Any

import numpy as np
import pytest

from autofgl.audit.attacks import (
    Sight,
    label_shares,
    peer_leaks,
    server_leaks,
    server_sights,
    solved_counts,
)
from autofgl.audit.transcript import Transcript, record
from autofgl.audit.verdict import Leak
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.catalog import find_method


def recorded(
    clients: list[ClientGraph], secure: str, name: str = "fedavg", **settings: Any
) -> Transcript:
    kind = find_method(name)
    return record(kind, clients, kind.Settings(rounds=3, hidden=8, **settings), 0, secure)


def leak(leaks: list[Leak], attack: str) -> Leak:
    return next(one for one in leaks if one.attack == attack)


def label_distribution(graph: ClientGraph) -> Any:
    counts = np.bincount(graph.y[graph.train_mask], minlength=graph.classes)
    return counts / counts.sum()


def test_a_plain_gradient_tells_the_label_counts(small_clients: list[ClientGraph]) -> None:
    """Small features leave it to the bias, which the labels alone move."""
    transcript = recorded(small_clients, "none", normalize_features=True)
    sights = {sight.clients: sight for sight in server_sights(transcript, "none")}
    for graph in small_clients:
        guess = label_shares(sights[(graph.name,)], graph.classes)
        assert guess is not None
        assert np.abs(guess - label_distribution(graph)).sum() / 2 < 0.05
    found = leak(server_leaks(transcript, small_clients, "none"), "label counts")
    assert found.verdict == "everything"


@pytest.mark.parametrize("aggregate", ["gradients", "parameters"])
def test_shares_hide_the_label_counts(aggregate: str, small_clients: list[ClientGraph]) -> None:
    transcript = recorded(small_clients, "shares", aggregate=aggregate)
    found = leak(server_leaks(transcript, small_clients, "shares"), "label counts")
    assert found.verdict == "nothing"


def test_a_bias_gradient_is_prediction_minus_labels() -> None:
    shares = np.array([0.5, 0.3, 0.2, 0.0])
    gradient = np.full(4, 0.25) - shares
    sight = Sight({"share": np.array(2.0), "out.bias": 2.0 * gradient}, ("a",), {})
    assert label_shares(sight, 4) == pytest.approx(shares)


def test_who_sees_updates_of_one_client(small_clients: list[ClientGraph]) -> None:
    attack = "updates of one client"
    plain = server_leaks(recorded(small_clients, "none"), small_clients, "none")
    assert leak(plain, attack).verdict == "everything"
    assert leak(plain, attack).figure == 3
    hidden = server_leaks(recorded(small_clients, "shares"), small_clients, "shares")
    assert leak(hidden, attack).verdict == "nothing"


def test_features_of_the_first_layer_show_in_plain_gradients(
    small_clients: list[ClientGraph],
) -> None:
    attack = "features in first-layer gradients"
    sparse = [with_few_words(graph) for graph in small_clients]
    plain = leak(server_leaks(recorded(sparse, "none"), sparse, "none"), attack)
    assert plain.figure is not None
    assert plain.figure > 0.95
    hidden = leak(server_leaks(recorded(sparse, "shares"), sparse, "shares"), attack)
    assert hidden.verdict == "nothing"


def with_few_words(graph: ClientGraph) -> ClientGraph:
    """The graph without a third of the features, another one for each client."""
    from dataclasses import replace

    from autofgl.graphs.client_graph import to_dense

    x = to_dense(graph.x).copy()
    x[:, int(graph.name[-1]) :: 3] = 0
    return replace(graph, x=x)


def test_two_clients_know_each_other_s_update(small_clients: list[ClientGraph]) -> None:
    two = small_clients[:2]
    found = leak(peer_leaks(recorded(two, "none"), two), "own part subtracted")
    assert found.verdict == "everything"
    three = leak(
        peer_leaks(recorded(small_clients, "shares"), small_clients), "own part subtracted"
    )
    assert (three.verdict, three.figure) == ("partly", 2)


def test_changing_clients_tell_node_counts(small_clients: list[ClientGraph]) -> None:
    names = [graph.name for graph in small_clients]
    transcript = Transcript()
    for at, chosen in enumerate([names[:2], names[1:], [names[0], names[2]]]):
        tag = f"update-{at}"
        for name in names:
            weight = np.array(7.0 if name in chosen else 0.0)
            transcript.contributed.setdefault(name, {})[tag] = {"share": weight}
        from autofgl.audit.transcript import SumSeen

        transcript.sums.append(SumSeen(tag, tuple(names), {"share": np.array(14.0)}))
        # one equation: nobody; two: the clients in both are still mixed; three: everybody
        assert solved_counts(transcript) == (0, 0, 3)[at]
    found = leak(server_leaks(transcript, small_clients, "shares"), "differences of sums")
    assert found.verdict == "partly"


def test_a_sum_made_with_and_without_a_client_is_noticed(
    small_clients: list[ClientGraph],
) -> None:
    from autofgl.audit.transcript import SumSeen

    transcript = recorded(small_clients, "shares", aggregate="parameters")
    seen = next(one for one in transcript.sums if one.tag.startswith("update"))
    transcript.sums.append(SumSeen(seen.tag, seen.contributors[1:], seen.vectors))
    found = leak(server_leaks(transcript, small_clients, "shares"), "differences of sums")
    assert found.verdict == "everything"
