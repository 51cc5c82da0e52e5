import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from autofgl.cli import main
from autofgl.errors import UserError
from autofgl.nn.models.spec import (
    FAMILIES,
    ModelSpec,
    SearchedSpec,
    architecture_tree,
    network_summary,
    spec_from_json,
)
from autofgl.nn.space import (
    ACTIVATIONS,
    PAPER_TYPES,
    Fusion,
    Genotype,
    Layer,
    Space,
    fused_layers,
)
from autofgl.runs.export import read_description

BRANCHES = "relu | gcn<0 gat<1 appnp<0 sage<1 gatedgraph<3 | identity"


def test_descriptions_do_not_wait_for_torch() -> None:
    code = "import sys, autofgl.nn.space, autofgl.nn.models.spec; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_description_says_which_kind_it_is() -> None:
    fixed = ModelSpec("gcn", 5, 2, hidden=8, layers=1)
    searched = SearchedSpec("relu | gcn<0 | tanh", 5, 2)
    assert spec_from_json(fixed.to_json()) == fixed
    assert spec_from_json(searched.to_json()) == searched
    assert searched.to_json()["family"] == "found"  # as files of earlier versions have it
    assert network_summary(fixed) == "gcn, 1 layer, 5 → 8 → 2"
    assert network_summary(searched) == "relu | gcn<0 | tanh"


@pytest.mark.parametrize("family", FAMILIES)
def test_json_round_trip(family: str) -> None:
    spec = ModelSpec(family, 20, 4, hidden=32, layers=3, dropout=0.6, hops=4)
    assert ModelSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    short = {"family": family, "in_features": 20, "classes": 4}
    assert ModelSpec.from_json(short) == ModelSpec(family, 20, 4)


def test_hops_default_to_those_of_the_paper() -> None:
    assert ModelSpec("sgc", 5, 2).steps == 2
    assert ModelSpec("appnp", 5, 2).steps == 10
    assert ModelSpec("appnp", 5, 2, hops=0).steps == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"family": "gnc"}, "unknown model 'gnc': did you mean .*gcn"),
        ({"widht": 3}, "unknown model option 'widht'"),
        ({"hidden": 0}, "hidden must be an integer of at least 1, not 0"),
        ({"classes": 2.5}, "classes must be an integer"),
        ({"layers": True}, "layers must be an integer"),
        ({"hops": -1}, "hops must be an integer of at least 0"),
        ({"dropout": 1.5}, r"dropout must lie in \[0, 1\]"),
        ({"teleport": "much"}, r"teleport must lie in \[0, 1\]"),
        ({"family": "gat", "hidden": 30}, "hidden 30 must be a multiple of heads 8"),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ModelSpec.from_json({"family": "gcn", "in_features": 5, "classes": 2} | change)


def test_missing_sizes_are_named() -> None:
    with pytest.raises(UserError, match="lacks 'classes'"):
        ModelSpec.from_json({"family": "gcn", "in_features": 5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"genotype": "relu | apnp<0 | relu"}, "did you mean appnp"),
        ({"genotype": "relu"}, "must read"),
        ({"fusion": "leafs"}, "did you mean leaves"),
        ({"dropout": 1.5}, "dropout must lie"),
        ({"layer_dropout": "much"}, "layer_dropout must lie"),
        ({"hidden": 0}, "searched network: hidden must be an integer of at least 1"),
        ({"family": "gcn"}, "of the family 'found'"),
        ({"drop": 0.5}, "unknown model option 'drop': did you mean dropout"),
    ],
)
def test_mistakes_in_searched_networks_are_named(change: dict[str, object], message: str) -> None:
    searched = SearchedSpec(BRANCHES, in_features=6, classes=3, hidden=8)
    with pytest.raises(UserError, match=message):
        SearchedSpec.from_json({**searched.to_json(), **change})


def test_a_searched_network_must_be_complete() -> None:
    with pytest.raises(UserError, match="lacks 'classes'"):
        SearchedSpec.from_json({"genotype": "relu | - | relu", "in_features": 3})


def lines_of(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_tree_with_branches() -> None:
    """Layers come depth first, so that 4, the second below 1, stands before 3."""
    expected = lines_of("""
        features → linear → relu
        ├─ 1 gcn ───────────┐
        │  ├─ 2 gat ────────┤
        │  └─ 4 sage ───────┤
        └─ 3 appnp ─────────┤
           └─ 5 gatedgraph ─┤
                            └─ mean of 5 → linear → identity → classes
    """)
    assert architecture_tree(Space(5).parse(BRANCHES)) == expected


def test_only_leaves_are_led_out() -> None:
    expected = lines_of("""
        features → linear → relu
        ├─ 1 gcn
        │  ├─ 2 gat ────────┐
        │  └─ 4 sage ───────┤
        └─ 3 appnp          │
           └─ 5 gatedgraph ─┤
                            └─ mean of 3 → linear → identity → classes
    """)
    assert architecture_tree(Space(5).parse(BRANCHES), "leaves") == expected


def test_a_chain_of_one_has_no_mean() -> None:
    expected = lines_of("""
        features → linear → tanh
        └─ 1 gin ─┐
                  └─ linear → relu → classes
    """)
    assert architecture_tree(Space(4).parse("tanh | gin<0 | relu")) == expected


@pytest.mark.parametrize("layers", [0, 6])
def test_a_tree_without_layers(layers: int) -> None:
    """Layers after the first None do not exist, whatever their genes say."""
    genes = (Layer("gcn", None), *[Layer("gat", 0)] * 5)[:layers]
    expected = "features → linear → softmax → linear → identity → classes"
    assert architecture_tree(Genotype("softmax", genes, "identity")) == expected


@pytest.mark.parametrize("fusion", ["all", "leaves"])
def test_every_layer_stands_once_and_led_out_if_averaged(fusion: Fusion) -> None:
    rng = np.random.default_rng(0)
    space = Space(6, stop=0.1)
    for genotype in (space.random(rng) for _ in range(200)):
        rows = re.findall(r"[├└]─ (\d) (\w+)( ─+[┐┤])?", architecture_tree(genotype, fusion))
        labels = {int(index): kind for index, kind, _ in rows}
        assert labels == {i: layer.type for i, layer in enumerate(genotype.existing, start=1)}
        led = [int(index) for index, _, line in rows if line]
        assert len(rows) == genotype.depth
        assert tuple(sorted(led)) == fused_layers(genotype, fusion) or not genotype.depth


def test_the_widest_network_fits() -> None:
    kind = max(PAPER_TYPES, key=len)
    ends = max(ACTIVATIONS, key=len)
    chain = Genotype(ends, tuple(Layer(kind, i) for i in range(6)), ends)
    lines = architecture_tree(chain).split("\n")
    assert len(lines) == 8
    assert max(map(len, lines)) <= 78


def test_a_search_ends_with_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["population=4", "layers=2", "generations=1", "rounds=1", "nodes=60", "hidden=4"]
    words += ["trials=0", "finalists=1"]
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stopped:
        main(["run", "fl-agcns", "--dataset", "synthetic", "--out", str(out), "--set", *words])
    assert stopped.value.code == 0
    spec = SearchedSpec.from_json(read_description(out)["network"])
    assert architecture_tree(spec.parsed()) in capsys.readouterr().out
