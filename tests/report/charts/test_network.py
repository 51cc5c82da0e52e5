"""Drawings of networks."""

import pytest

from autofgl.nn.models.spec import FAMILIES, ModelSpec, SearchedSpec
from autofgl.report.charts.network import draw_network, network_svg


def test_a_searched_network_is_drawn_as_it_is_connected() -> None:
    spec = SearchedSpec("sigmoid | gcn<0 gat<1 sage<0 | relu", in_features=5, classes=3)
    svg = draw_network(spec)
    assert svg.count('class="edge"') == 1 + 3 + 3 + 2  # linear, layers, mean of 3, linear, classes
    assert "gat (layer 2) reads gcn (layer 1)" in svg
    assert "sage (layer 3) reads linear (64 wide, sigmoid)" in svg
    assert "mean (of 3 outputs) reads gcn (layer 1) and gat (layer 2) and sage (layer 3)" in svg
    leaves = draw_network(SearchedSpec(spec.genotype, 5, 3, fusion="leaves"))
    assert "mean (of 2 outputs) reads gat (layer 2) and sage (layer 3)" in leaves
    assert "linear (3 wide, relu) reads linear (64 wide, relu)" in draw_network(
        SearchedSpec("relu | - | relu", 5, 3)
    )
    assert network_svg(spec).count("<svg xmlns=") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_fixed_networks_are_drawn(family: str) -> None:
    svg = draw_network(ModelSpec(family, in_features=5, classes=3, layers=3))
    assert family in svg
    boxes = {"sgc": 3, "appnp": 6, "grand": 6, "agnn": 7, "gatedgraph": 5, "sfgnn": 9}
    assert svg.count('class="box') == boxes.get(family, 5)
