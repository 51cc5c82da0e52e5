"""Names of the methods on the command line."""

from autofgl.errors import unknown_name
from autofgl.methods.asfgnn import ASFGNN
from autofgl.methods.centralized import Centralized
from autofgl.methods.fedavg import FedAvg
from autofgl.methods.fedgraph import FedGraph
from autofgl.methods.fl_agcns import FLAGCNS
from autofgl.methods.fl_darts import FLDarts
from autofgl.methods.fl_random import FLRandom
from autofgl.methods.fl_rl import FLRL
from autofgl.methods.graphfl import GraphFL
from autofgl.methods.graphfl_ga import GraphFLGA
from autofgl.methods.method import Method
from autofgl.methods.separate import Separate
from autofgl.methods.sfgnn import SFGNN

METHODS: dict[str, type[Method]] = {
    "centralized": Centralized,
    "separate": Separate,
    "fedavg": FedAvg,
    "fl-agcns": FLAGCNS,
    "fl-random": FLRandom,
    "fl-rl": FLRL,
    "fl-darts": FLDarts,
    "fedgraph": FedGraph,
    "graphfl": GraphFL,
    "graphfl-ga": GraphFLGA,
    "sfgnn": SFGNN,
    "asfgnn": ASFGNN,
}


def find_method(name: str) -> type[Method]:
    """The method of that name.

    Raises:
        UserError: There is none; the message names the nearest ones.
    """
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]
