"""Recipes as text, as messages, and applied to settings."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autofgl.errors import UserError
from autofgl.federation.payload import decode, encode
from autofgl.graphs.client_graph import ClientGraph
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_space
from autofgl.runtime.federated_settings import FederatedSettings
from autofgl.runtime.recipe import Recipe, changed
from autofgl.seeding import numpy_generator
from autofgl.sharing.common import network_spec

SPACE = make_space(FLAGCNSSettings(layers=4))
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,12}", fullmatch=True)
NETWORKS = st.integers(0, 999).map(lambda seed: str(SPACE.random(numpy_generator(seed))))
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["C"])),
)
RECIPES = st.builds(
    Recipe,
    sharing=st.one_of(st.just(""), NAMES),
    network=st.one_of(st.just(""), NAMES, NETWORKS),
    settings=st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), VALUES, max_size=4),
)


def typed(recipe: Recipe) -> Any:
    """All parts, with the kinds of values: 1, 1.0 and true are equal otherwise."""
    settings = {key: (type(value), value) for key, value in recipe.settings.items()}
    return recipe.sharing, recipe.network, settings


@given(RECIPES)
@example(Recipe(settings={"lr": 5e-05, "weight_decay": 1e22, "dropout": -0.0}))
@example(Recipe(network="gcn", settings={"keep": "0.5", "select": "on", "fanouts": "10,25"}))
@example(Recipe(settings={"tune_lr": "1e-5..1e-2 log", "per_client": "a lr=1; b: dropout=0"}))
@example(Recipe(sharing="common", settings={"start": "relu | gcn<0 gcn<1 | identity"}))
def test_the_text_form_is_read_back(recipe: Recipe) -> None:
    assert typed(Recipe.parse(str(recipe))) == typed(recipe)
    assert "\n" not in str(recipe)


@given(RECIPES)
def test_a_recipe_travels_in_a_message(recipe: Recipe) -> None:
    message = decode(encode({**recipe.to_payload(), "stage": "final-0-", "trial": True}))
    assert typed(Recipe.from_payload(message)) == typed(recipe)
    assert Recipe().to_payload() == {}


def test_the_text_form_by_hand() -> None:
    recipe = Recipe(sharing="common", network="gcn", settings={"lr": 0.01, "patience": 3})
    assert str(recipe) == "common: gcn; lr=0.01 patience=3"
    assert str(Recipe(network="relu | gcn<0 | identity")) == "relu | gcn<0 | identity"
    assert str(Recipe(settings={"normalize_features": False})) == "normalize_features=false"
    assert Recipe.parse("personal: relu | gcn<0 gcn<1 | identity") == Recipe(
        sharing="personal", network="relu | gcn<0 gcn<1 | identity"
    )
    assert Recipe.parse("own-encoder: lr=1e-3 select=loss").settings == {
        "lr": 1e-3, "select": "loss",
    }  # fmt: skip
    assert Recipe.parse(" gcn ;  lr=0.5 ") == Recipe(network="gcn", settings={"lr": 0.5})
    assert Recipe.parse("") == Recipe()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gcn; lr", "'lr' is not key=value"),
        ("gcn; =3", "'=3' is not key=value"),
        ("gcn; lr=", "'lr=' is not key=value"),
        (": gcn", "name a way of sharing before ':'"),
        ('gcn; start="a', "'start=' is not key=value"),
    ],
)
def test_what_is_no_recipe_is_named_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        Recipe.parse(text)
    assert "\n" not in str(raised.value)
    assert text in str(raised.value)


@pytest.mark.parametrize("text", ["[1", "[1,2]", "null", "2020-02-02", "{a:b}", "&x", "!x"])
def test_what_is_no_number_is_text_and_does_not_fit(text: str) -> None:
    recipe = Recipe.parse(f"gcn; lr={text}")
    assert recipe.settings == {"lr": text}
    with pytest.raises(UserError, match=r"^recipe: lr=.*: Input should be a valid number"):
        recipe.apply(FederatedSettings())


def test_applying_changes_what_is_given_and_nothing_else() -> None:
    run = FederatedSettings(model="gat", rounds=7, lr=0.3)
    assert Recipe().apply(run) is run
    assert Recipe(sharing="common", network="relu | gcn<0 | identity").apply(run) == run
    recipe = Recipe(network="sgc", settings={"lr": 0.1, "dropout": 0})
    expected = {**run.model_dump(), "model": "sgc", "lr": 0.1, "dropout": 0.0}
    assert recipe.apply(run).model_dump() == expected
    assert type(recipe.apply(run)) is FederatedSettings


def test_applying_leaves_settings_that_a_protocol_would_set() -> None:
    plain = FederatedSettings(protocol="plain", dropout=0.3)
    assert Recipe(settings={"lr": 0.1}).apply(plain).dropout == 0.3


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (Recipe(settings={"lr": -1.0}), r"^recipe: lr=-1\.0: .*greater than 0$"),
        (Recipe(settings={"learning_rate": 0.1}), r"^recipe: learning_rate=0\.1: "),
        (Recipe(settings={"hidden": "wide"}), r"^recipe: hidden=wide: .*integer"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(recipe: Recipe, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        recipe.apply(FederatedSettings())
    assert "\n" not in str(raised.value)


def test_a_fixed_network_is_a_setting_where_there_is_one() -> None:
    assert Recipe(network="gat").apply(FederatedSettings()).model == "gat"
    assert Recipe(network="gat").apply(FLAGCNSSettings()) == FLAGCNSSettings()


def test_a_fixed_network_that_is_none_is_refused(small_clients: list[ClientGraph]) -> None:
    assert network_spec(small_clients[0], FLAGCNSSettings(), "gat").family == "gat"  # type: ignore[union-attr]
    with pytest.raises(UserError, match="gcm"):
        network_spec(small_clients[0], FLAGCNSSettings(), "gcm")


def test_other_changes_name_who_asked_for_them() -> None:
    with pytest.raises(UserError, match=r"^per_client: layers=0: "):
        changed(FederatedSettings(), {"layers": 0}, "per_client")
