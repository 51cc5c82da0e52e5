"""Finding 7: a curious peer of FedGraph computes features back from the rows it is sent.

Rows depend on features and on weights that everybody has, which change from round to round. What
``share=all`` gives away is documented, and a site's policy has to allow it; the defaults must not
come near it.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import autofgl
from autofgl.audit.rows import Views, peer_views, precision_at_size, row_leaks, solve_linear
from autofgl.audit.transcript import Transcript, record
from autofgl.audit.verdict import Leak
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fedgraph.server import FedGraph
from autofgl.methods.fedgraph.settings import FedGraphSettings
from autofgl.methods.privacy import WHO_LEARNS_WHAT


@cache
def cora_clients() -> list[ClientGraph]:
    return autofgl.partition(autofgl.load("cora"), clients=3, method="metis", seed=0)


def recorded(share: str, rounds: int) -> Transcript:
    settings = FedGraphSettings(share=share, rounds=rounds)  # type: ignore[arg-type]
    return record(FedGraph, cora_clients(), settings, 0, "none")


def attack(share: str, rounds: int) -> Leak:
    (leak,) = row_leaks(recorded(share, rounds), cora_clients(), share, scaling=False)
    return leak


@pytest.mark.slow
def test_with_everything_shared_a_peer_has_the_raw_features_after_few_rounds() -> None:
    leak = attack("all", 16)
    assert leak.verdict == "everything"
    assert leak.figure == pytest.approx(1.0)
    assert "raw features of 30 of 30" in leak.got


def test_by_default_a_peer_gets_some_of_the_words_and_no_more() -> None:
    assert FedGraphSettings().share == "hidden"
    leak = attack("hidden", 25)
    assert leak.verdict == "partly"
    assert leak.figure is not None
    assert leak.chance is not None
    assert 1.5 * leak.chance < leak.figure < 0.4


def test_where_nothing_is_shared_there_are_no_rows() -> None:
    transcript = recorded("none", 1)
    assert not any(transcript.rows.values())
    (leak,) = row_leaks(transcript, cora_clients(), "none", scaling=False)
    assert leak.verdict == "nothing"


def test_the_texts_say_what_a_peer_can_rebuild() -> None:
    peer = next(one for one in WHO_LEARNS_WHAT["fedgraph"] if one.who.startswith("peer"))
    assert "rebuilds all raw features" in peer.always
    assert "rebuilds part of the features" in peer.always
    nobody = next(one for one in WHO_LEARNS_WHAT["fedgraph"] if one.who == "nobody")
    assert nobody.always != "features, labels or edges of another client"
    share = FedGraphSettings.model_fields["share"].description
    assert share is not None
    assert "raw features" in share


def test_least_squares_need_no_words_only_enough_rounds() -> None:
    """Any features: as many equations as unknowns."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(5, 24))
    weights = [{"convs.0.lin.weight": rng.normal(size=(24, 4))} for _ in range(7)]
    rows = np.stack([truth @ one["convs.0.lin.weight"] for one in weights]).astype(np.float32)
    views = Views("owner", np.arange(5), rows, weights)
    assert np.allclose(solve_linear(views, nonnegative=False), truth, atol=1e-4)
    few = replace(views, rows=rows[:3], weights=weights[:3])
    assert not np.allclose(solve_linear(few, nonnegative=False), truth, atol=0.1)


def test_precision_counts_the_best_guesses() -> None:
    truth = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert precision_at_size(truth, truth) == (1.0, 3 / 8)
    assert precision_at_size(np.array([[3.0, 0, 2, 1], [2, 1, 3, 0]]), truth)[0] == 1 / 4


def test_only_evaluations_are_used() -> None:
    transcript = recorded("all", 2)
    peer = cora_clients()[0].name
    views = peer_views(transcript, peer, 1)
    assert views is not None
    assert len(views.rows) == 3  # two rounds and the final weights
    trained = [rows for rows in transcript.rows[peer] if rows.tag.startswith("train")]
    assert trained
