from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from autofgl.errors import UserError
from autofgl.graphs.catalog import SyntheticSettings
from autofgl.graphs.client_graph import ClientGraph
from autofgl.graphs.synthetic import generate


def draw(seed: int = 0, **knobs: Any) -> ClientGraph:
    return generate(SyntheticSettings(**knobs), np.random.default_rng(seed))


def homophily(graph: ClientGraph) -> float:
    row, col = graph.edge_index
    return float((graph.y[row] == graph.y[col]).mean())


def assert_sound(graph: ClientGraph) -> None:
    row, col = graph.edge_index
    pairs = set(zip(row.tolist(), col.tolist(), strict=True))
    assert len(pairs) == graph.num_edges
    assert {(b, a) for a, b in pairs} == pairs
    assert not (row == col).any()
    assert row.max(initial=0) < graph.num_nodes
    assert isinstance(graph.x, sp.csr_array)
    assert graph.x.dtype == np.float32
    assert set(np.unique(graph.x.data)) == {1.0}
    assert np.diff(graph.x.indptr).min() >= 1
    assert graph.x.has_canonical_format


KNOBS = st.fixed_dictionaries(
    {
        "nodes": st.integers(8, 200),
        "classes": st.integers(2, 8),
        "features": st.integers(8, 60),
        "degree": st.floats(0, 7),
        "homophily": st.floats(0, 1),
        "degree_power": st.floats(2.01, 9),
        "words_per_node": st.floats(0.1, 30),
        "topic_strength": st.floats(0, 1),
        "label_noise": st.floats(0, 1),
    }
)


@settings(max_examples=60, deadline=None)
@given(KNOBS, st.integers(0, 2**32))
def test_any_knobs_give_a_sound_graph(knobs: dict[str, Any], seed: int) -> None:
    graph = draw(seed, **knobs)
    assert_sound(graph)
    assert (graph.num_nodes, graph.num_features) == (knobs["nodes"], knobs["features"])
    assert graph.classes == knobs["classes"]
    assert set(graph.y.tolist()) <= set(range(graph.classes))
    assert graph.num_edges <= knobs["nodes"] * knobs["degree"] + 1
    assert not (graph.train_mask | graph.val_mask | graph.test_mask).any()


@pytest.mark.parametrize("wanted", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_homophily_and_degree_follow_their_knobs(wanted: float) -> None:
    graph = draw(nodes=3000, homophily=wanted, degree=12)
    assert homophily(graph) == pytest.approx(wanted, abs=0.005)
    assert graph.num_edges / graph.num_nodes == pytest.approx(12, rel=0.005)


def test_classes_are_equally_large() -> None:
    assert np.bincount(draw(nodes=1001, classes=4).y).tolist() == [251, 250, 250, 250]


def test_smaller_powers_give_larger_hubs() -> None:
    largest = [draw(degree_power=power).degree.max() for power in (2.2, 4.0, 50.0)]
    assert largest[0] > largest[1] > largest[2]


def test_topics_tell_classes_apart() -> None:
    def purity(strength: float) -> float:
        """Share of the words of class 0's most typical tenth that class 0 uses itself."""
        graph = draw(topic_strength=strength)
        use = np.stack([graph.x[graph.y == k].sum(0) for k in range(graph.classes)])
        typical = np.argsort(use[0] / (use.sum(0) + 1))[-graph.num_features // 10 :]
        return float(use[0, typical].sum() / use[:, typical].sum())

    weak, middle, strong = (purity(strength) for strength in (0.0, 0.3, 1.0))
    assert weak < 0.35 < middle < 0.95 < strong


def test_one_seed_gives_one_graph() -> None:
    first, again, other = draw(1), draw(1), draw(2)
    assert (first.edge_index == again.edge_index).all()
    assert (first.x != again.x).nnz == 0
    assert (first.y == again.y).all()
    assert (first.y != other.y).any()


def test_label_noise_changes_its_share_of_labels_and_nothing_else() -> None:
    clean, noisy = draw(3), draw(3, label_noise=0.25)
    assert (clean.edge_index == noisy.edge_index).all()
    assert (clean.x != noisy.x).nnz == 0
    assert (clean.y != noisy.y).mean() == 0.25
    assert homophily(noisy) < homophily(clean) - 0.2


def test_a_full_graph_is_not_waited_for() -> None:
    assert_sound(draw(nodes=10, classes=5, features=5, degree=9, homophily=1.0))


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("nodes", 1),
        ("nodes", 2.5),
        ("classes", 1),
        ("features", 0),
        ("degree", -1),
        ("degree", float("nan")),
        ("degree", 2000),
        ("homophily", 1.1),
        ("degree_power", 2),
        ("words_per_node", 0),
        ("topic_strength", -0.1),
        ("label_noise", "much"),
    ],
)
def test_bad_knobs_are_named(knob: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"setting {knob}=.*: it should") as caught:
        SyntheticSettings(**{knob: value})
    assert "\n" not in str(caught.value)


def test_too_many_classes_are_refused() -> None:
    with pytest.raises(UserError, match="setting classes=9: it should not exceed nodes=8"):
        SyntheticSettings(nodes=8, classes=9, degree=2)


def test_unknown_knobs_are_refused() -> None:
    with pytest.raises(UserError, match="unknown setting 'node': did you mean nodes"):
        SyntheticSettings(**{"node": 5})


@pytest.mark.slow
def test_a_million_nodes() -> None:
    graph = draw(nodes=1_000_000)
    assert graph.num_edges == pytest.approx(10_000_000, rel=0.002)
    assert homophily(graph) == pytest.approx(0.8, abs=0.001)
