import json

import pytest

from autofgl.errors import UserError
from autofgl.nn import ModelSpec
from autofgl.nn.models.spec import FAMILIES


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
