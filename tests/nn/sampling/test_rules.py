import tracemalloc
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
import torch

from autofgl.errors import GraphError
from autofgl.graphs.client_graph import Boundary, ClientGraph, Ints
from autofgl.nn.kernels.sparse import SparsePattern
from autofgl.nn.sampling.neighborhood import Block, Neighborhood
from autofgl.nn.sampling.rules import Everything, Fanout, Importance, Keep, Rule, draw_batch
from autofgl.nn.structure import Structure

RULES: list[Rule] = [Everything(), Keep(0.3), Fanout(2), Importance(12)]
Matrix = npt.NDArray[np.float64]


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def client(pairs: list[tuple[int, int]], nodes: int, external: int = 0) -> Neighborhood:
    """A client with these edges, whose node 0 has external neighbors of degree 1, 2, …"""
    forth = np.array(pairs, np.int64).reshape(-1, 2).T
    edges = np.concatenate([forth, forth[::-1]], axis=1)
    none, ids, others = np.zeros(nodes, np.bool_), np.arange(nodes), np.arange(external)
    boundary = Boundary(0 * others, 0 * others, others, 1 + others, ("b",))
    x = np.ones((nodes, 1), np.float32)
    graph = ClientGraph("a", x, edges, ids, none, none, none, nodes, ids, boundary)
    return Neighborhood.from_client(graph)


@pytest.fixture(scope="module")
def mixed() -> Neighborhood:
    """Rows of 9, 3, 2, 3, 2 and 1 entries; the last node is alone, the first has 4 external."""
    return client([(0, 1), (0, 2), (0, 3), (0, 4), (1, 3)], nodes=6, external=4)


def dense(matrix: Neighborhood) -> Matrix:
    row = np.repeat(np.arange(matrix.own), np.diff(matrix.indptr))
    full = np.zeros((matrix.own, matrix.own + matrix.external))
    full[row, matrix.indices] = matrix.values
    return full


def spread(block: Block, matrix: Neighborhood) -> Matrix:
    """The block as a matrix of the neighborhood's shape."""
    row = np.repeat(block.targets, np.diff(block.indptr))
    full = np.zeros((matrix.own, matrix.own + matrix.external))
    np.add.at(full, (row, block.sources[block.indices]), block.values)
    return full


def draws_of_rows(rule: Rule, matrix: Neighborhood, draws: int) -> Matrix:
    """Draws of a rule that treats rows apart, ``[draws, n, n + m]``: one draw on many copies."""
    n, m = matrix.own, matrix.external
    copy = np.repeat(np.arange(draws), len(matrix.indices))
    column = np.tile(matrix.indices, draws).astype(np.int64)
    copies = Neighborhood(
        indptr=np.append(0, np.cumsum(np.tile(np.diff(matrix.indptr), draws))),
        indices=np.where(column < n, copy * n + column, draws * n + copy * m + column - n),
        values=np.tile(matrix.values, draws),
        owner=np.tile(matrix.owner, draws),
        remote=np.tile(matrix.remote, draws),
    )
    block = rule(copies, np.arange(draws * n), generator(3))
    copy, row = np.divmod(np.repeat(block.targets, np.diff(block.indptr)), n)
    column = block.sources[block.indices]
    own = column < draws * n
    assert np.array_equal(np.where(own, column // n, (column - draws * n) // max(m, 1)), copy)
    samples = np.zeros((draws, n, n + m))
    column = np.where(own, column % n, n + (column - draws * n) % max(m, 1))
    samples[copy, row, column] = block.values
    return samples


def assert_unbiased(samples: Matrix, matrix: Neighborhood) -> None:
    error = np.abs(samples.mean(axis=0) - dense(matrix))
    assert (error <= 4.5 * samples.std(axis=0) / np.sqrt(len(samples)) + 1e-6).all()


def assert_consistent(block: Block, matrix: Neighborhood, targets: Ints) -> None:
    assert np.array_equal(block.targets, np.unique(targets))
    assert np.array_equal(np.unique(block.indices), np.arange(len(block.sources)))
    assert (np.diff(block.sources) > 0).all()
    assert len(block.indptr) == len(block.targets) + 1
    assert block.indptr[-1] == block.edges == len(block.values) == len(block.indices)
    assert block.values.dtype == np.float32
    row = np.repeat(block.targets, np.diff(block.indptr))
    entries = row * (matrix.own + matrix.external) + block.sources[block.indices]
    assert len(np.unique(entries)) == len(entries)  # no entry twice
    assert (dense(matrix)[row, block.sources[block.indices]] > 0).all()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("targets", [[0, 1, 2, 3, 4, 5], [0, 5], [5], [4, 1, 4, 0], []])
def test_blocks_are_consistent(rule: Rule, targets: list[int], mixed: Neighborhood) -> None:
    nodes = np.array(targets, np.int64)
    for seed in range(5):
        block = rule(mixed, nodes, generator(seed))
        assert_consistent(block, mixed, nodes)
        again = rule(mixed, nodes, generator(seed))
        assert np.array_equal(spread(block, mixed), spread(again, mixed))


def test_everything_by_hand() -> None:
    path = client([(0, 1), (1, 2), (2, 3)], nodes=4)
    block = Everything()(path, np.array([0, 2]))
    assert block.sources.tolist() == [0, 1, 2, 3]
    assert block.indptr.tolist() == [0, 2, 5]
    assert block.indices.tolist() == [0, 1, 1, 2, 3]
    third, sixth = 1 / 3, 1 / np.sqrt(6)
    np.testing.assert_allclose(block.values, [0.5, sixth, third, third, sixth], rtol=1e-6)
    assert block.edges == 5
    assert block.shape == (2, 4)
    block = Everything()(path, np.array([3]))
    assert block.sources.tolist() == [2, 3]
    assert block.indices.tolist() == [0, 1]


def test_what_is_not_drawn_is_laid_out_once(mixed: Neighborhood) -> None:
    path = client([(0, 1), (1, 2), (2, 3)], nodes=4)
    rule = Everything()
    first = rule(path, np.array([0, 2]))
    assert rule(path, np.array([0, 2])) is first
    assert first.matrix is first.matrix
    other = rule(path, np.array([0, 1]))
    assert other.targets.tolist() == [0, 1]
    assert rule(mixed, np.array([0, 1])) is not other
    again = rule(path, np.array([0, 2]))
    np.testing.assert_array_equal(again.matrix.to_dense(), first.matrix.to_dense())


def test_keeping_all_is_everything(mixed: Neighborhood) -> None:
    nodes = np.arange(mixed.own)
    full = Everything()(mixed, nodes)
    for rule in (Keep(1.0), Fanout(8)):
        block = rule(mixed, nodes, generator())
        for part in ("sources", "indptr", "indices", "values"):
            assert np.array_equal(getattr(block, part), getattr(full, part))
    assert np.array_equal(spread(full, mixed), dense(mixed))


@pytest.mark.parametrize(
    "rule",
    [Keep(0.0), Keep(0.05), Keep(0.3), Keep(0.8), Fanout(1), Fanout(2), Fanout(3), Fanout(7)],
    ids=lambda rule: type(rule).__name__,
)
def test_no_entry_of_a_row_is_biased(rule: Rule, mixed: Neighborhood) -> None:
    assert_unbiased(draws_of_rows(rule, mixed, 20_000), mixed)


@pytest.mark.parametrize("size", [1, 20])
def test_no_entry_of_a_column_is_biased(size: int, mixed: Neighborhood) -> None:
    rng, nodes, rule = generator(3), np.arange(mixed.own), Importance(size)
    samples = [spread(rule(mixed, nodes, rng), mixed) for _ in range(1500)]
    assert_unbiased(np.array(samples), mixed)


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_keep_scales_by_the_rows_size_over_the_samples(p: float) -> None:
    star = client([(0, leaf) for leaf in range(1, 200)], nodes=201)
    full = dense(star)
    rng, kept = generator(1), []
    for _ in range(400):
        block = Keep(p)(star, np.array([0, 7, 200]), rng)
        counts = np.diff(block.indptr)
        row = np.repeat(block.targets, counts)
        whole = full[row, block.sources[block.indices]]
        factor = np.array([200, 2, 1]) / counts
        np.testing.assert_allclose(block.values, whole * np.repeat(factor, counts), rtol=1e-5)
        assert counts[2] == 1
        kept.append(counts[:2])
    # Row 0 keeps p of 200. Row 7 of 2 keeps 2p, and one where it would have kept none.
    hub, leaf = np.mean(kept, axis=0)
    assert abs(hub - 200 * p) < 5 * np.sqrt(200 * p * (1 - p) / 400)
    assert abs(leaf - (2 * p + (1 - p) ** 2)) < 5 * np.sqrt(0.25 / 400)


def test_fanout_draws_every_subset_alike() -> None:
    star = client([(0, leaf) for leaf in range(1, 6)], nodes=6)
    samples = draws_of_rows(Fanout(2), star, 3000)[:, 0]
    assert (samples[:, 0] == dense(star)[0, 0]).all()
    copy, leaf = np.nonzero(samples[:, 1:])
    assert (np.bincount(copy) == 2).all()
    values = samples[:, 1:][copy, leaf]
    np.testing.assert_allclose(values, dense(star)[0, 1 + leaf] * 5 / 2, rtol=1e-6)
    seen = Counter(map(tuple, leaf.reshape(-1, 2).tolist()))
    assert len(seen) == 10
    # Chi-squared with 9 degrees of freedom: beyond 33.7 once in ten thousand seeds.
    assert sum((count - 300) ** 2 / 300 for count in seen.values()) < 33.7


def test_fanout_leaves_small_rows_alone(mixed: Neighborhood) -> None:
    block = Fanout(3)(mixed, np.arange(mixed.own), generator())
    assert np.diff(block.indptr).tolist() == [4, 3, 2, 3, 2, 1]
    assert np.array_equal(spread(block, mixed)[1:], dense(mixed)[1:])


def test_importance_by_hand() -> None:
    # Two nodes with one edge: Q is 1/2 everywhere, q is even. Node 2 is alone with Q = 1.
    pair = client([(0, 1)], nodes=3)
    share = {0: 0.25, 1: 0.25, 2: 0.5}
    rng, draws = generator(2), 60
    for _ in range(20):
        full = spread(Importance(draws)(pair, np.arange(3), rng), pair)
        times = {u: full[:, u].max() / dense(pair)[:, u].max() * draws * share[u] for u in range(3)}
        assert all(abs(count - round(count)) < 1e-4 for count in times.values())
        assert round(sum(times.values())) == draws
        assert full[0, 0] == full[1, 0]
    rows = [Importance(1)(pair, np.array([0, 2]), rng) for _ in range(50)]
    assert {tuple(np.diff(block.indptr)) for block in rows} == {(1, 0), (0, 1)}
    assert all(len(block.sources) == 1 for block in rows)


def test_external_columns_are_drawn_from_the_whole_row_only(
    small_clients: list[ClientGraph],
) -> None:
    matrix = Neighborhood.from_client(small_clients[0])
    nodes = np.arange(matrix.own)
    for rule in (Everything(), Keep(0.5), Fanout(3), Importance(100)):
        block = rule(matrix, nodes, generator())
        outside = block.sources[block.sources >= matrix.own] - matrix.own
        assert len(outside) > 0
        assert outside.max() < matrix.external
        inside = rule(matrix.internal(), nodes, generator())
        assert inside.sources.max() < matrix.own


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_matrix_is_the_block_and_has_a_gradient(
    rule: Rule, small_clients: list[ClientGraph]
) -> None:
    matrix = Neighborhood.from_client(small_clients[1])
    block = rule(matrix, draw_batch(np.arange(matrix.own), 20, generator(1)), generator())
    operator = block.matrix
    expected = spread(block, matrix)[np.ix_(block.targets, block.sources)]
    np.testing.assert_allclose(operator.to_dense().numpy(), expected, rtol=1e-6)
    pattern = SparsePattern.from_csr(
        torch.from_numpy(block.indptr), torch.from_numpy(block.indices), block.shape
    )
    for part in ("crow", "col", "crow_t", "col_t", "to_t", "from_t"):
        assert torch.equal(getattr(operator.pattern, part), getattr(pattern, part))
    x = torch.randn(len(block.sources), 3, generator=torch.Generator().manual_seed(0))
    weights = torch.randn(len(block.targets), 3, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    product = operator @ x
    (product * weights).sum().backward()  # type: ignore[no-untyped-call]
    whole = torch.from_numpy(expected).float()
    torch.testing.assert_close(product.detach(), whole @ x.detach())
    torch.testing.assert_close(x.grad, whole.T @ weights)


def test_full_blocks_compute_what_the_whole_graph_does(small_graph: ClientGraph) -> None:
    matrix = Neighborhood.from_client(small_graph)
    whole = Structure.from_client(small_graph).gcn
    x = torch.randn(small_graph.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    top = Everything()(matrix, np.array([3, 50, 99]))
    below = Everything()(matrix, top.sources)
    hidden = (below.matrix @ x[torch.from_numpy(below.sources)]).relu()
    expected = (whole @ (whole @ x).relu())[top.targets]
    torch.testing.assert_close(top.matrix @ hidden, expected)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_memory_does_not_grow_with_the_graph(rule: Rule) -> None:
    nodes = 100_000
    own = np.arange(nodes)
    indices = np.sort(np.stack([(own - 1) % nodes, own, (own + 1) % nodes], axis=1), axis=1)
    ring = Neighborhood(
        indptr=3 * np.arange(nodes + 1),
        indices=indices.ravel().astype(np.int32),
        values=np.full(3 * nodes, 1 / 3, np.float32),
        owner=np.zeros(0, np.int64),
        remote=np.zeros(0, np.int64),
    )
    targets = np.array([0, 5, 77_777, nodes - 1])
    rule(ring, targets, generator())  # lays out what is kept
    tracemalloc.start()
    try:
        rule(ring, targets, generator())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < nodes / 4  # bytes


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("wrong", [-1, 6])
def test_foreign_targets_are_refused(rule: Rule, wrong: int, mixed: Neighborhood) -> None:
    with pytest.raises(GraphError, match=f"node {wrong} is none of the client's 6 nodes"):
        rule(mixed, np.array([2, wrong]), generator())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_client_without_nodes(rule: Rule) -> None:
    block = rule(client([], nodes=0), np.zeros(0, np.int64), generator())
    assert block.shape == (0, 0)
    assert (block.matrix @ torch.zeros(0, 5)).shape == (0, 5)


def test_bad_rules_are_refused() -> None:
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
            Keep(p)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Fanout(0)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        Importance(0)


def test_draw_batch() -> None:
    nodes = np.array([2, 3, 5, 7, 11, 13])
    rng, seen = generator(), Counter[int]()
    for _ in range(3000):
        batch = draw_batch(nodes, 2, rng)
        assert len(batch) == 2
        assert batch[0] < batch[1]
        seen.update(batch.tolist())
    assert set(seen) == set(nodes.tolist())
    assert all(abs(count - 1000) < 5 * np.sqrt(3000 * 2 / 9) for count in seen.values())
    assert draw_batch(nodes, 9, rng).tolist() == nodes.tolist()
    assert draw_batch(nodes[:0], 9, rng).tolist() == []
