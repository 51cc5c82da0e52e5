"""The networks that are tried after the search."""

from collections.abc import Callable
from statistics import mean

import numpy as np

from autofgl.federation.payload import decode, encode
from autofgl.methods.fl_agcns.refinement import Refinement
from autofgl.methods.fl_agcns.settings import FLAGCNSSettings, make_codes
from autofgl.nn.space import Space
from autofgl.runtime.trials import Trial
from autofgl.search.baselines import RandomSearch

SEARCHED = [
    "tanh | - | relu",
    "tanh | appnp<0 | relu",
    "tanh | appnp<0 | sigmoid",
    "relu | gcn<0 gat<0 | relu",
    "relu | gat<0 gcn<0 | relu",
    "relu | sgc<0 | relu",
    "relu | arma<0 | relu",
]
SETTINGS = FLAGCNSSettings(layers=3, trials=18)


def play(
    refinement: Refinement, count: int, score: Callable[[str], float], over: list[Trial]
) -> list[str]:
    """Try so many networks, each scored by its text; what was asked for."""
    asked = []
    for _ in range(count):
        useful = [one for one in over if one.useful]
        asked.append(refinement.ask(over, min(useful, key=lambda one: one.loss, default=None)))
        over.append(Trial(asked[-1], score(asked[-1]), 0.5, 0.5, 1, "done"))
        refinement.tell(over[-1].loss)
    return asked


def prefer(network: str) -> float:
    """identity outputs and relu inputs are good, and of the layers sgc."""
    start, layers, end = network.split(" | ")
    return 4 - 2 * (end == "identity") - (start == "relu") - 0.5 * ("sgc" in layers)


ENDS = ("identity", "relu", "tanh", "sigmoid", "softmax")


def test_activations_of_the_shallowest_then_layers_then_activations_again() -> None:
    asked = play(Refinement(SEARCHED, SETTINGS, seed=1), 20, prefer, [])
    assert asked[0] == "tanh | appnp<0 | relu"
    assert set(asked[:5]) == {f"tanh | appnp<0 | {output}" for output in ENDS}
    assert set(asked[5:9]) == {f"{start} | appnp<0 | identity" for start in ENDS if start != "tanh"}
    assert asked[9:13] == [
        "relu | sgc<0 | identity", "relu | arma<0 | identity", "relu | gcn<0 gat<0 | identity",
        "relu | - | identity",
    ]  # fmt: skip
    assert set(asked[13:17]) == {f"relu | sgc<0 | {end}" for end in ENDS if end != "identity"}
    assert set(asked[17:20]) < {f"{start} | sgc<0 | identity" for start in ENDS if start != "relu"}


def test_a_network_without_layers_is_none_to_begin_with() -> None:
    deep = "tanh | gcn<0 gat<0 | relu"
    assert play(Refinement([SEARCHED[0], deep], SETTINGS, seed=1), 1, prefer, []) == [deep]


def test_then_come_children_and_nothing_twice() -> None:
    asked = play(Refinement(SEARCHED, SETTINGS, seed=1), 36, prefer, [])
    space, rng = Space(3), np.random.default_rng(0)
    assert len({space.parse(network).shape() for network in asked}) == 36
    sampled = [str(space.decode(code)) for code in RandomSearch(make_codes(space), rng).ask(200)]
    assert mean(map(prefer, asked[21:])) < mean(map(prefer, sampled)) - 0.5, "they inherit"


def test_networks_that_diverge_are_passed_over() -> None:
    def diverging(network: str) -> float:
        return float("inf") if "appnp" in network else prefer(network)

    asked = play(Refinement(SEARCHED, SETTINGS, seed=1), 12, diverging, [])
    assert len(set(asked)) == 12
    assert asked[:4] == [SEARCHED[1], SEARCHED[5], SEARCHED[6], SEARCHED[3]], (
        "its layers, one after the other"
    )
    assert asked[5].endswith("| sgc<0 | relu"), "then the activations of the best"
    assert play(Refinement(SEARCHED[1:2], SETTINGS, seed=1), 3, diverging, [])[0] == SEARCHED[1]


def test_a_saved_state_goes_on_alike() -> None:
    for made in (1, 5, 14):
        refinement, over = Refinement(SEARCHED, SETTINGS, seed=1), list[Trial]()
        play(refinement, made, prefer, over)
        again = Refinement(SEARCHED, SETTINGS, seed=1)
        again.load_state(decode(encode(refinement.state())))
        copy = list(over)
        assert play(again, 6, prefer, copy) == play(refinement, 6, prefer, over)
