"""The networks that are tried after the search."""

import numpy as np

from autofgl.federation.payload import decode, encode
from autofgl.methods.refinement import Refinement, first_networks
from autofgl.methods.search_settings import SearchSettings
from autofgl.nn.space import Space

FOUND = [
    "tanh | appnp<0 | relu",
    "tanh | appnp<0 | sigmoid",
    "relu | gcn<0 gat<0 | relu",
    "relu | gat<0 gcn<0 | relu",
    "relu | sgc<0 | relu",
]


def test_first_the_best_with_different_layers_then_these_between_other_activations() -> None:
    space = Space(3)
    found = [space.parse(code) for code in FOUND]
    first = first_networks(space, found, 30, np.random.default_rng(0))
    assert [str(one) for one in first[:3]] == [FOUND[0], FOUND[2], FOUND[4]]
    assert len(first) == 30
    layers = [network.shape()[1] for network in first]
    assert layers[3:] == layers[:3] * 9
    pairs = [(network.input, network.output) for network in first[3:]]
    assert len(set(pairs[:25])) == 25
    assert pairs[25:] == pairs[:2]


def test_no_more_than_asked_for_are_as_found() -> None:
    space = Space(3)
    found = [space.parse(code) for code in FOUND]
    first = first_networks(space, found, 3, np.random.default_rng(0))
    assert [str(one) for one in first[:2]] == [FOUND[0], FOUND[2]]
    assert first[2].shape()[1] == first[0].shape()[1]


def test_networks_are_tried_once_and_a_saved_state_goes_on_alike() -> None:
    settings = SearchSettings(layers=3, trials=12)
    refinement = Refinement(FOUND, settings, seed=1)
    tried: list[str] = []
    for score in range(8):
        tried.append(refinement.ask(tried))
        refinement.tell(float(score))
    assert len({Space(3).parse(code).shape() for code in tried}) == 8
    again = Refinement(FOUND, settings, seed=1)
    again.load_state(decode(encode(refinement.state())))
    assert [again.ask(tried) for _ in range(3)] == [refinement.ask(tried) for _ in range(3)]
