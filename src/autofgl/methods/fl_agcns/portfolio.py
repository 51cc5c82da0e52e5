"""Well-known networks, which a search has to beat: its first trials.

What costs a fiftieth of a search must not be better than what it ends with. So the networks that an
expert would try first race before the search, each with settings of its own, and the best of them
goes on with the best of the search. Nothing here depends on a graph.
"""

from collections.abc import Iterator

from autofgl.errors import UserError
from autofgl.nn.space import Genotype, Space
from autofgl.runtime.recipe import Recipe
from autofgl.runtime.variants import CONSISTENT_RATE

#: Fixed networks, those that cost little first. SGC has no hidden layer and needs a larger rate
#: (Wu et al., 2019). GRAND is made for training with unlabeled nodes, which suits APPNP too: both
#: overfit less, and bear more decay; at the usual rate they would begin so slowly that a race drops
#: them. The others train as the run does.
CONSISTENT: dict[str, bool | int | float | str] = {
    "lr": CONSISTENT_RATE, "weight_decay": 5e-3, "consistency": 1.0
}  # fmt: skip
FIXED = (
    Recipe(network="sgc", settings={"lr": 0.2, "weight_decay": 1e-5, "dropout": 0.0}),
    Recipe(network="appnp"),
    Recipe(network="grand", settings=CONSISTENT),
    Recipe(network="appnp", settings=CONSISTENT),
    Recipe(network="gcn"),
    Recipe(network="sage"),
    Recipe(network="gat"),
    Recipe(network="agnn"),
    Recipe(network="gatedgraph"),
    Recipe(network="arma"),
)

#: The same as codes of the search space, as far as they are in it, and a perceptron.
CODES = (
    "relu | - | identity",
    "relu | appnp<0 | identity",
    "relu | gcn<0 gcn<1 | identity",
    "relu | sage<0 sage<1 | identity",
    "identity | sgc<0 | identity",
    "relu | gin<0 | identity",
)


#: What races before the search.
KNOWN = (*FIXED, Recipe(network=CODES[0]))


def known_codes(space: Space) -> Iterator[Genotype]:
    """Those of the codes that a space has."""
    for code in CODES:
        try:
            yield space.parse(code)
        except UserError:  # without one of these types, or with too few layers
            continue
