"""The search space: size, codes, text, operators."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autofgl.errors import UserError
from autofgl.nn.space import ACTIVATIONS, LAYER_TYPES, PAPER_TYPES, Genotype, Layer, Space

SPACE = Space()


def genotypes(space: Space = SPACE) -> st.SearchStrategy[Genotype]:
    genes = st.tuples(*(st.integers(0, int(n) - 1) for n in space.cardinalities))
    return genes.map(space.decode)


def everything(space: Space) -> list[Genotype]:
    ranges = (range(int(n)) for n in space.cardinalities)
    return [space.decode(code) for code in itertools.product(*ranges)]


def size(space: Space) -> int:
    """Number of codes."""
    return math.prod(space.cardinalities.tolist())


def test_the_paper_s_choices() -> None:
    names = "gat gin sage gcn sgc appnp agnn arma feast gen gmm gatedgraph"
    assert " ".join(PAPER_TYPES) == names
    assert list(ACTIVATIONS) == ["sigmoid", "tanh", "relu", "softmax", "identity"]


@pytest.mark.parametrize("layers", range(1, 7))
def test_size_is_the_paper_s(layers: int) -> None:
    assert size(Space(layers)) == 25 * 12**layers * math.factorial(layers + 1)
    assert len(Space(layers).cardinalities) == 2 * layers + 2


@pytest.mark.parametrize("layers", range(4))
def test_sizes_are_those_of_an_enumeration(layers: int) -> None:
    """The rule of None gives layer i one choice more than its i predecessors: ∏ (i + 1)."""
    space = Space(layers, ("gcn", "gat"), ("relu", "tanh"))
    codes = everything(space)
    assert len(set(codes)) == len(codes) == size(space)
    assert size(space) == 4 * 2**layers * math.factorial(layers + 1)
    networks = 4 * sum(2**depth * math.factorial(depth) for depth in range(layers + 1))
    assert len({space.canonical(code) for code in codes}) == networks
    assert len({str(code) for code in codes}) == networks


@given(genotypes())
def test_codes_and_texts_round_trip(genotype: Genotype) -> None:
    code = SPACE.encode(genotype)
    assert code.dtype == np.int64
    assert code.shape == (14,)
    assert SPACE.decode(code) == genotype
    canonical = SPACE.canonical(genotype)
    assert SPACE.parse(str(genotype)) == SPACE.parse(str(canonical)) == canonical
    assert SPACE.canonical(canonical) == canonical
    assert canonical.existing == genotype.existing


@given(st.integers(0, 2**32), st.sampled_from([None, 0.0, 0.3, 1.0]))
def test_draws_stay_inside_the_space(seed: int, stop: float | None) -> None:
    space = Space(stop=stop)
    drawn = space.check(space.random(np.random.default_rng(seed)))
    if stop in (0.0, 1.0):
        assert drawn.depth == (6 if stop == 0.0 else 0)


def test_genes_are_drawn_evenly() -> None:
    generator = np.random.default_rng(0)
    codes = np.array([SPACE.encode(SPACE.random(generator)) for _ in range(6000)])
    for gene, count in zip(codes.T, SPACE.cardinalities, strict=True):
        assert np.bincount(gene, minlength=count) == pytest.approx(6000 / count, rel=0.3)


def test_one_seed_gives_one_code() -> None:
    assert SPACE.random(np.random.default_rng(3)) == SPACE.random(np.random.default_rng(3))


def test_text_is_what_a_person_would_type() -> None:
    genotype = SPACE.parse("ReLU| gcn<0 gat<1  appnp<0 |identity")
    assert str(genotype) == "relu | gcn<0 gat<1 appnp<0 | identity"
    assert genotype.existing == (Layer("gcn", 0), Layer("gat", 1), Layer("appnp", 0))
    assert genotype.leaves() == (2, 3)
    assert str(SPACE.parse("tanh | - | softmax")) == "tanh | - | softmax"
    assert SPACE.parse("tanh || softmax").depth == 0
    assert SPACE.parse("relu | gcn<0 gat<none sage<1 | relu") == SPACE.parse("relu | gcn<0 | relu")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("relu | gcn<0", "must read 'input | layers | output'"),
        ("rellu | gcn<0 | relu", "unknown activation 'rellu': did you mean relu"),
        ("relu | apnp<0 | relu", "unknown layer type 'apnp': did you mean appnp"),
        ("relu | gcn<0 gat<2 | relu", "layer 2 'gat<2': its predecessor must be one of 0 to 1"),
        ("relu | gcn | relu", "layer 'gcn' must read 'type<predecessor'"),
        ("relu | gcn<-1 | relu", "must read 'type<predecessor'"),
        ("relu | " + "gcn<0 " * 7 + "| relu", "has 7 layers, at most 6"),
        ("relu | gcn<0 | ", "unknown activation ''"),
    ],
)
def test_bad_text_is_explained(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SPACE.parse(text)


@pytest.mark.parametrize("code", [[0] * 13, [0.0] * 14, [[0] * 14], [5] + [0] * 13, [-1] * 14])
def test_bad_codes_are_refused(code: list[int]) -> None:
    with pytest.raises(UserError, match="code"):
        SPACE.decode(code)


def test_bad_spaces_are_refused() -> None:
    with pytest.raises(UserError, match="layers must not be negative"):
        Space(-1)
    with pytest.raises(UserError, match="stop must lie"):
        Space(stop=2.0)
    with pytest.raises(UserError, match="unknown layer type 'gnc'"):
        Space(types=("gnc",))
    with pytest.raises(UserError, match="every layer type once"):
        Space(types=("gcn", "gcn"))
    with pytest.raises(UserError, match="every activation once, not none"):
        Space(activations=())
    with pytest.raises(UserError, match="has 2 layers, the search space 6"):
        SPACE.check(Space(2).random(np.random.default_rng(0)))


def test_a_shape_does_not_know_the_numbers_of_layers() -> None:
    texts = ["relu | gcn<0 gat<0 sage<1 | tanh", "relu | gat<0 gcn<0 sage<2 | tanh"]
    one, two = map(SPACE.parse, texts)
    assert one != two
    assert one.shape() == two.shape()
    assert one.shape() != SPACE.parse("relu | gcn<0 gat<0 sage<2 | tanh").shape()


def test_more_choices_can_be_had() -> None:
    space = Space(2, types=LAYER_TYPES)
    assert size(space) == 25 * len(LAYER_TYPES) ** 2 * 6
    assert str(space.parse("relu | appnp3<0 sgc4<1 | relu")) == "relu | appnp3<0 sgc4<1 | relu"
