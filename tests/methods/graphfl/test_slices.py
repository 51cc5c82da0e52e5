import numpy as np
import pytest

from autofgl.errors import AutoFGLError
from autofgl.methods.graphfl.configurations import Part, Shape, merge, parts_of, put, take
from autofgl.runtime.clients import average, weighted

WIDE = parts_of(Shape("gcn", 2, 4), {"convs.0.lin.weight": (3, 4), "convs.1.lin.weight": (4, 2)})
SLIM = parts_of(Shape("gcn", 2, 2), {"convs.0.lin.weight": (3, 2), "convs.1.lin.weight": (2, 2)})
FLAT = parts_of(Shape("gcn", 1, 4), {"convs.0.lin.weight": (3, 2)})
DEEP = parts_of(
    Shape("gcn", 3, 4),
    {"convs.0.lin.weight": (3, 4), "convs.1.lin.weight": (4, 4), "convs.2.lin.weight": (4, 2)},
)
OTHER = parts_of(Shape("appnp", 2, 4), {"lins.0.weight": (3, 4), "lins.1.weight": (4, 2)})
ALL = (WIDE, SLIM, FLAT, DEEP, OTHER)
SIZES = {
    part.block: max(p.sizes for parts in ALL for p in parts.values() if p.block == part.block)
    for parts in ALL
    for part in parts.values()
}


def drawn(parts: dict[str, Part], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=part.sizes).astype("f4") for name, part in parts.items()}


def blocks(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=size).astype("f4") for name, size in SIZES.items()}


def test_layers_are_known_by_their_place() -> None:
    assert [part.block for part in DEEP.values()] == [
        "gcn/hidden.0.lin.weight", "gcn/hidden.1.lin.weight", "gcn/out.2.lin.weight",
    ]  # fmt: skip
    assert [part.block for part in FLAT.values()] == ["gcn/out.0.lin.weight"]
    assert {part.block for part in WIDE.values()} & {part.block for part in DEEP.values()} == {
        "gcn/hidden.0.lin.weight"
    }, "the last layer after one hidden layer is not that after two"
    assert not {p.block for p in WIDE.values()} & {p.block for p in OTHER.values()}
    with pytest.raises(AutoFGLError, match="'att' of gat is of no layer"):
        parts_of(Shape("gat", 1, 8), {"att": (8,)})


def test_take_undoes_put_and_nothing_else_is_written() -> None:
    weights = drawn(SLIM, 0)
    whole = put(weights, SLIM, SIZES)
    assert {name: value.shape for name, value in whole.items()} == SIZES
    for name, value in take(whole, SLIM).items():
        assert np.array_equal(value, weights[name])
    assert sum(np.count_nonzero(value) for value in whole.values()) == 3 * 2 + 2 * 2


def test_equal_structures_give_fedavg_bit_for_bit() -> None:
    clients, shares = [drawn(WIDE, seed) for seed in range(3)], [0.5, 0.3, 0.2]
    sums = [weighted(client, share) for client, share in zip(clients, shares, strict=True)]
    total = {name: sum(s[name].astype("f8") for s in sums) for name in sums[0]}
    expected = average(total)
    padded = [
        weighted(put(client, WIDE, SIZES), share)
        for client, share in zip(clients, shares, strict=True)
    ]
    blocks_total = {name: sum(s[name].astype("f8") for s in padded) for name in padded[0]}
    before = blocks(9)
    found = merge(blocks_total, [float(blocks_total["share"])], [WIDE], before, 1e-6)
    for name, value in take(found, WIDE).items():
        assert np.array_equal(value, expected[name])
    for name in set(SIZES) - {part.block for part in WIDE.values()}:
        assert np.array_equal(found[name], before[name]), "nobody holds it"


def test_each_entry_is_averaged_over_its_holders() -> None:
    """By hand: entries of the slim network over both, the rest over the wide one alone."""
    wide, slim, other = drawn(WIDE, 0), drawn(SLIM, 1), drawn(OTHER, 2)
    shares = {"wide": 0.25, "slim": 0.5, "other": 0.25}
    total = {name: np.zeros(size) for name, size in SIZES.items()}
    for weights, parts, share in (
        (wide, WIDE, 0.25), (slim, SLIM, 0.5), (other, OTHER, 0.25),
    ):  # fmt: skip
        for name, value in put(weights, parts, SIZES).items():
            total[name] += share * value
    before = blocks(7)
    held = [WIDE, SLIM, FLAT, DEEP, OTHER]
    given = [shares["wide"], shares["slim"], 1e-9, 0.0, shares["other"]]
    found = merge(total, given, held, before, 1e-6)
    first, last = "convs.0.lin.weight", "convs.1.lin.weight"
    for row in range(3):
        for column in range(4):
            expected = wide[first][row, column]
            if column < 2:
                expected = (0.25 * expected + 0.5 * slim[first][row, column]) / 0.75
            assert found["gcn/hidden.0.lin.weight"][row, column] == pytest.approx(expected)
    for row in range(4):
        expected = wide[last][row]
        if row < 2:
            expected = (0.25 * expected + 0.5 * slim[last][row]) / 0.75
        assert found["gcn/out.1.lin.weight"][row] == pytest.approx(expected, rel=1e-5)
    assert found["appnp/hidden.0.weight"] == pytest.approx(other["lins.0.weight"])
    for name in ("gcn/out.0.lin.weight", "gcn/hidden.1.lin.weight", "gcn/out.2.lin.weight"):
        assert np.array_equal(found[name], before[name]), "a share below the least is nobody's"
