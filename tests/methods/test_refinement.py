"""The networks that are tried after the search."""

from collections.abc import Callable

from autofgl.federation.payload import decode, encode
from autofgl.methods.refinement import Refinement
from autofgl.methods.search_settings import SearchSettings
from autofgl.methods.trials import Tried, distinct
from autofgl.nn.space import Space

FOUND = [
    "tanh | - | relu",
    "tanh | appnp<0 | relu",
    "tanh | appnp<0 | sigmoid",
    "relu | gcn<0 gat<0 | relu",
    "relu | gat<0 gcn<0 | relu",
    "relu | sgc<0 | relu",
    "relu | arma<0 | relu",
]
SETTINGS = SearchSettings(layers=3, trials=18)


def play(
    refinement: Refinement, count: int, score: Callable[[str], float], tried: list[Tried]
) -> list[str]:
    """Try so many networks, each scored by its text; what was asked for."""
    asked = []
    for _ in range(count):
        able = [one for one in tried if not one.diverged]
        asked.append(refinement.ask(tried, min(able, key=lambda one: one.score, default=None)))
        tried.append(Tried(asked[-1], score(asked[-1]), 0.5, 0.5))
        refinement.tell(tried[-1].score)
    return asked


def prefer(network: str) -> float:
    """identity outputs and relu inputs are good, and of the layers sgc."""
    start, layers, end = network.split(" | ")
    return 4 - 2 * (end == "identity") - (start == "relu") - 0.5 * ("sgc" in layers)


def test_layers_then_outputs_then_inputs_then_layers_again() -> None:
    asked = play(Refinement(FOUND, SETTINGS, seed=1), 15, prefer, [])
    assert asked[:3] == [FOUND[1], FOUND[3], FOUND[5]]  # three networks with different layers
    ends = ("identity", "tanh", "sigmoid", "softmax")
    assert set(asked[3:7]) == {f"relu | sgc<0 | {output}" for output in ends}
    assert set(asked[7:11]) == {f"{start} | sgc<0 | identity" for start in ends}
    assert asked[11:15] == [
        "relu | appnp<0 | identity", "relu | gcn<0 gat<0 | identity", "relu | arma<0 | identity",
        "relu | - | identity",
    ]  # fmt: skip


def test_then_come_children_and_nothing_twice() -> None:
    asked = play(Refinement(FOUND, SETTINGS, seed=1), 30, prefer, [])
    space = Space(3)
    assert len({space.parse(network).shape() for network in asked}) == 30
    assert min(map(prefer, asked[15:])) <= min(map(prefer, asked[:15]))


def test_activations_come_again_if_other_layers_turn_out_best() -> None:
    def score(network: str) -> float:
        return prefer(network) - 5 * (network == "relu | arma<0 | identity")

    asked = play(Refinement(FOUND, SETTINGS, seed=1), 23, score, [])
    ends = ("identity", "tanh", "sigmoid", "softmax")
    outputs = {f"relu | arma<0 | {output}" for output in ("tanh", "sigmoid", "softmax")}
    assert outputs <= set(asked[15:19])
    assert {f"{start} | arma<0 | identity" for start in ends} <= set(asked[18:23])


def test_of_equal_figures_one_network_is_enough() -> None:
    losses = {"a": 0.5, "b": 0.5 + 1e-8, "c": 0.6}
    one, same, other = (Tried(name, 0.2, 0.8, loss) for name, loss in losses.items())
    assert distinct([one, same, other]) == [one, other]


def test_networks_that_diverge_are_passed_over() -> None:
    def diverging(network: str) -> float:
        return float("inf") if "appnp" in network else prefer(network)

    asked = play(Refinement(FOUND, SETTINGS, seed=1), 12, diverging, [])
    assert len(set(asked)) == 12
    assert asked[3].startswith("relu | sgc<0 |")
    assert play(Refinement(FOUND[1:2], SETTINGS, seed=1), 3, diverging, [])[0] == FOUND[1]


def test_a_saved_state_goes_on_alike() -> None:
    for made in (1, 5, 14):
        refinement, tried = Refinement(FOUND, SETTINGS, seed=1), list[Tried]()
        play(refinement, made, prefer, tried)
        again = Refinement(FOUND, SETTINGS, seed=1)
        again.load_state(decode(encode(refinement.state())))
        copy = list(tried)
        assert play(again, 6, prefer, copy) == play(refinement, 6, prefer, tried)
