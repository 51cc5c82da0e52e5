import re
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from autofgl.cli import main
from autofgl.nn.choices import ACTIVATIONS, PAPER_TYPES
from autofgl.nn.drawing import draw
from autofgl.nn.found import FoundSpec, Fusion, fused_layers
from autofgl.nn.space import Genotype, Layer, Space
from autofgl.runs.export import read_description

BRANCHES = "relu | gcn<0 gat<1 appnp<0 sage<1 gatedgraph<3 | identity"


def drawing(text: str) -> str:
    return dedent(text).strip("\n")


def test_a_tree_with_branches() -> None:
    """Layers come depth first, so that 4, the second below 1, stands before 3."""
    expected = drawing("""
        features → linear → relu
        ├─ 1 gcn ───────────┐
        │  ├─ 2 gat ────────┤
        │  └─ 4 sage ───────┤
        └─ 3 appnp ─────────┤
           └─ 5 gatedgraph ─┤
                            └─ mean of 5 → linear → identity → classes
    """)
    assert draw(Space(5).parse(BRANCHES)) == expected


def test_only_leaves_are_led_out() -> None:
    expected = drawing("""
        features → linear → relu
        ├─ 1 gcn
        │  ├─ 2 gat ────────┐
        │  └─ 4 sage ───────┤
        └─ 3 appnp          │
           └─ 5 gatedgraph ─┤
                            └─ mean of 3 → linear → identity → classes
    """)
    assert draw(Space(5).parse(BRANCHES), "leaves") == expected


def test_a_chain_of_one_has_no_mean() -> None:
    expected = drawing("""
        features → linear → tanh
        └─ 1 gin ─┐
                  └─ linear → relu → classes
    """)
    assert draw(Space(4).parse("tanh | gin<0 | relu")) == expected


@pytest.mark.parametrize("layers", [0, 6])
def test_without_layers(layers: int) -> None:
    """Layers after the first None do not exist, whatever their genes say."""
    genes = (Layer("gcn", None), *[Layer("gat", 0)] * 5)[:layers]
    expected = "features → linear → softmax → linear → identity → classes"
    assert draw(Genotype("softmax", genes, "identity")) == expected


@pytest.mark.parametrize("fusion", ["all", "leaves"])
def test_every_layer_is_drawn_once_and_led_out_if_averaged(fusion: Fusion) -> None:
    rng = np.random.default_rng(0)
    space = Space(6, stop=0.1)
    for genotype in (space.random(rng) for _ in range(200)):
        rows = re.findall(r"[├└]─ (\d) (\w+)( ─+[┐┤])?", draw(genotype, fusion))
        found = {int(index): kind for index, kind, _ in rows}
        assert found == {i: layer.type for i, layer in enumerate(genotype.existing, start=1)}
        led = [int(index) for index, _, line in rows if line]
        assert len(rows) == genotype.depth
        assert tuple(sorted(led)) == fused_layers(genotype, fusion) or not genotype.depth


def test_the_widest_network_fits() -> None:
    kind = max(PAPER_TYPES, key=len)
    ends = max(ACTIVATIONS, key=len)
    chain = Genotype(ends, tuple(Layer(kind, i) for i in range(6)), ends)
    lines = draw(chain).split("\n")
    assert len(lines) == 8
    assert max(map(len, lines)) <= 78


def test_a_search_ends_with_the_drawing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["population=4", "layers=2", "generations=1", "rounds=1", "nodes=60", "hidden=4"]
    words += ["trials=0", "finalists=1"]
    out = tmp_path / "run"
    with pytest.raises(SystemExit) as stopped:
        main(["run", "fl-agcns", "--dataset", "synthetic", "--out", str(out), "--set", *words])
    assert stopped.value.code == 0
    spec = FoundSpec.from_json(read_description(out)["network"])
    assert draw(spec.parsed()) in capsys.readouterr().out
