"""Who learns what in each method, as data. The words are those of ``docs/methods.md``."""

from typing import NamedTuple

from autofgl.report.figures import Cells, table
from autofgl.report.markup import Content, element
from autofgl.report.record import RunRecord
from autofgl.report.section import Section


class Learns(NamedTuple):
    """What a party learns: always, and what more where the server sees what clients send."""

    who: str
    always: str
    openly: str = ""


_NOT_SHOWN = "features, labels or edges of another client"
_OPEN_UPDATES = "every client's weighted gradients or parameters, node counts and figures"

_SEARCHED = (
    Learns(
        "server",
        "every candidate network, its federated training and validation figures in each round, at "
        "how many clients it diverged; the finalists' figures; the final weights",
        _OPEN_UPDATES,
    ),
    Learns("clients", "the candidates, the summed gradients, the final weights"),
    Learns("nobody", _NOT_SHOWN),
)

WHO_LEARNS_WHAT: dict[str, tuple[Learns, ...]] = {
    "centralized": (Learns("server", "everything: the graphs are pooled, nothing is private"),),
    "separate": (
        Learns("server", "node counts, losses, accuracies and in the end each client's model"),
        Learns("clients", "nothing of each other"),
    ),
    "fedavg": (
        Learns(
            "server",
            "sums of node counts, losses and right predictions; with aggregate=parameters the sum "
            "of the updates in each round; the final weights",
            _OPEN_UPDATES,
        ),
        Learns("clients", "the averages, the federation's node counts"),
        Learns("nobody", _NOT_SHOWN),
    ),
    "fl-agcns": (
        Learns(
            "server",
            "the population; federated loss and accuracy of each code; each client's validation "
            "node count and preferred codes; with objective latency the mean time of a layer; the "
            "final weights",
            _OPEN_UPDATES,
        ),
        Learns(
            "clients",
            "the population, the summed gradients, the costs that are objectives, the final "
            "weights",
        ),
        Learns("nobody", _NOT_SHOWN),
    ),
    "fl-random": _SEARCHED,
    "fl-rl": _SEARCHED,
    "fl-darts": (
        Learns(
            "server",
            "the architecture parameters α; in each generation the summed gradient with respect to "
            "α, the relaxed network's federated losses and validation accuracy; the federation's "
            "node counts; the final weights",
            _OPEN_UPDATES,
        ),
        Learns(
            "clients",
            "α, the summed gradients of the weights, the federation's node counts, the final "
            "weights",
        ),
        Learns("nobody", _NOT_SHOWN),
    ),
    "fedgraph": (
        Learns(
            "server",
            "the average weights and federated figures; bytes between clients. No embedding: it "
            "relays boxes that it cannot open",
            "each client's weights, mini-batch size and cost",
        ),
        Learns("owner of a node", "when a peer uses this node as a neighbour"),
        Learns(
            "peer with an edge to a node",
            "with share=hidden that node's h·W of the second and later convolutions; with "
            "share=all also x·W of the first; with share=none nothing",
        ),
        Learns("others", "the average weights"),
        Learns("nobody", _NOT_SHOWN),
    ),
    "graphfl": (
        Learns(
            "server",
            "the average of each round; sums of losses and right predictions, with and without "
            "adaptation, of new clients apart; the federation's node counts",
            "each client's weights and figures",
        ),
        Learns(
            "clients",
            "the averages, the federation's node counts; a new client the final weights only",
        ),
        Learns("nobody", "features, labels, edges, tasks or adapted weights of another client"),
    ),
}

_SFGNN = (
    Learns(
        "server",
        "averages over the clients in each round: discriminator, label distribution, accuracy; "
        "sums of losses, right predictions and node counts; every client's hyper-parameters",
        "each client's discriminator, label counts and accuracies",
    ),
    Learns(
        "clients",
        "the averaged discriminator and label distribution, the federation's node counts. With two "
        "clients this is the other one's discriminator and label counts",
    ),
    Learns("nobody", "features, edges, labels of single nodes, message passing of another client"),
)

WHO_LEARNS_WHAT |= {
    "graphfl-ga": (
        *WHO_LEARNS_WHAT["graphfl"][:2],
        Learns(
            "server, besides",
            "training nodes of those who hold each shape of network, the mean length of their "
            "steps, the mean inner rate; how many "
            "chromosomes each client tried, and its time; with mode=threshold, who is below it",
            "each client's configuration",
        ),
        Learns(
            "clients, besides",
            "the weights of all shapes, what share of the training nodes holds each, the mean "
            "length of a step, the mean inner rate",
        ),
        Learns("nobody", "populations, fitness, another client's configuration"),
    ),
    "sfgnn": _SFGNN,
    "asfgnn": (*_SFGNN, Learns("server, besides", "the score of every trial; it proposes them")),
}

_MODES = {
    "none": "none: the server sees what each client sends",
    "ckks": "ckks: homomorphic encryption, the server adds what it cannot read",
    "shares": "shares: masks that cancel in the sum",
    "shares-additive": "shares-additive: additive secret shares",
}


def privacy(run: RunRecord) -> Section:
    """Who learnt what in this run, by its method and its way to sum."""
    secure = str(run.config.get("secure", "none"))
    rows: list[list[Content]] = []
    for who, always, openly in WHO_LEARNS_WHAT.get(run.method, ()):
        more = f"; also {openly}" if openly and secure == "none" else ""
        rows.append([who, f"{always}{more}"])
    mode = element("p", f"Secure sums: {_MODES.get(secure, secure)}.")
    if not rows:
        return Section(
            "Who learnt what",
            [mode, element("p", f"The documentation of {run.method} says who learns what.")],
        )
    return Section(
        "Who learnt what", [mode, table(Cells(("who", "learnt"), rows), "Who learnt what")]
    )
