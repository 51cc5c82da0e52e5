"""Who learns what in each method: the one source of the report's and the documentation's tables.

Texts may contain `` `code` ``. Nothing here imports a method, so reading it is cheap.
"""

from typing import NamedTuple


class Learns(NamedTuple):
    """What a party learns always, and besides with ``--secure none`` or another mode."""

    who: str
    always: str
    none: str = ""
    #: For *nobody*, what else stays hidden.
    secure: str = ""

    def with_mode(self, secure: bool) -> str:
        """What it learns with a secure mode, or with ``--secure none``."""
        more = self.secure if secure else self.none
        return f"{self.always}; also {more}" if more else self.always


_UPDATES = "every client's weighted gradients or parameters, node counts, losses and accuracies"
_NOBODY = Learns(
    "nobody",
    "features, labels or edges of another client",
    secure="another client's update, node counts, losses or accuracies",
)

_ACROSS = (
    Learns(
        "with `sharing=across`, peer with an edge to a node",
        "that node's row of every hop of the network that is shared, anew in every round (with "
        "`refresh=k` in every k-th), and nothing of other nodes. With `share=hidden` a row is a "
        "hidden embedding: of GCN, SAGE, SGC, GIN, GAT, ARMA, GRAND and GatedGraph that of the "
        "second and later convolutions, made of the node and its neighbors; of APPNP, AGNN and "
        "searched networks with `relu` at first one of the node alone. From many rounds a peer can "
        "rebuild part of the features. With `share=all` rows of the first convolution are x·W, "
        "from which it rebuilds all raw features of the node within a few rounds; with "
        "`share=none` there are no rows",
    ),
    Learns(
        "with `sharing=across`, owner of a node",
        "which peers have edges to it, once at the start; nothing about the nodes at the other "
        "end, unless `backward=true`: then in every round what each peer's loss owes to the node's "
        "rows. It is zero where none of the peer's training nodes is near, and from that of the "
        "last hop the owner reads labels of training nodes with an edge to its own",
    ),
    Learns(
        "with `sharing=across`, server",
        "how many bytes pass between which clients. Never a row: it relays boxes that it cannot "
        "open",
    ),
    _NOBODY._replace(
        always="labels of another client, unless `backward=true`; its edges; its features, where "
        "no row gives them away",
    ),
)

#: What ways of sharing other than one common model add, and what is asked for besides.
_WAYS = Learns(
    "server, with `sharing` and the like",
    "with `personal`, `head`, `encoder` and `ditto` sums of the figures of the clients' own models "
    "instead of those of the common one (`personal`: both); with `head` the mean of all heads in "
    "the end, with `encoder` that of all encoders; "
    "with `compare_alone` the sums of what clients reach alone, and how many gain and lose; with "
    "`collect_models` each client's own model",
    none="with `fedgta` and `fed-pub`, which no secure mode can give, every client's weights, and "
    "moments of its predicted labels and its smoothing confidence, or what its model gives on a "
    "random graph",
)

_CANDIDATES = (
    Learns(
        "server",
        "every candidate network, its federated training and validation figures in each round, and "
        "at how many clients it diverged; the finalists' figures; the final weights",
        none=_UPDATES,
    ),
    _WAYS,
    Learns("clients", "the candidates, the summed gradients, the final weights"),
    *_ACROSS,
)

_GRAPHFL = (
    Learns(
        "server",
        "the average of each round; sums of losses and correct predictions, with and without "
        "adaptation, those of new clients separately; the federation's node counts",
        none="each client's weights, node counts and figures",
        secure="a client's own part where it alone trains in a round, or is the only new client: "
        "a sum over one client hides nothing",
    ),
    Learns(
        "clients",
        "the averages and the federation's node counts; a new client only the final weights",
    ),
    Learns(
        "server, with `test_phase=server` or `both`",
        "nothing more of clients: it adapts the final weights to nodes and labels of its own, "
        "which no client has",
    ),
)

_SFGNN = (
    Learns(
        "server",
        "averages over the clients in each round: discriminator, label distribution, accuracy; "
        "sums of losses, correct predictions and node counts; every client's hyperparameters; "
        "with `collect_models` each client's network; with `mixing=class` or `both` the output "
        "layers weighted by the label counts; with `common` the averaged common network",
        none="each client's part of every sum: discriminator, label and node counts, losses, "
        "accuracies",
    ),
    Learns(
        "clients",
        "the averaged discriminator and label distribution, and the federation's node counts. With "
        "two clients, each can subtract its own part and so has the other one's discriminator and "
        "label counts, whatever the mode; with `common` the averaged common network too",
    ),
    Learns("nobody", "features, edges, labels of single nodes, message passing of another client"),
)

_PREDICTIONS = Learns(
    "server, of predictions",
    "in the end, over all clients together, the confusion matrix and the histograms of scores and "
    "confidences of validation and test nodes: how many nodes have which score, not whose they are "
    "(`score_bins` makes them coarser or leaves them out, and with `--dp` there are none); with "
    "another `objective` than accuracy what that takes of validation nodes, in every round; with "
    "`class_weight=balanced` the training nodes of each class, which clients can tell too",
    none="the same of each client",
)

_METHODS: dict[str, tuple[Learns, ...]] = {
    "centralized": (Learns("server", "everything: the graphs are pooled, nothing is private"),),
    "separate": (
        Learns(
            "server",
            "each client's node counts, losses and accuracies, its final model, and in the end its "
            "confusion matrix and histograms of its scores; with another `objective` than accuracy "
            "what that takes, in every round",
        ),
        Learns("clients", "nothing about each other"),
        _NOBODY._replace(secure=""),
    ),
    "fedavg": (
        Learns(
            "server",
            "sums of node counts, losses and correct predictions; the final weights",
            none=_UPDATES,
            secure="the sum of the updates in each round with `aggregate=parameters`; with "
            "`aggregate=gradients` not even that, since only the clients open the sum",
        ),
        _WAYS,
        Learns(
            "clients",
            "the averages and the federation's node counts; with `fedgta` and `fed-pub` an average "
            "of the clients like itself",
        ),
        *_ACROSS,
    ),
    "fl-agcns": (
        Learns(
            "server",
            "the population; federated loss and accuracy of each code; each client's validation "
            "node count and preferred codes, neither with `--dp`; with the objective `latency` the "
            "mean time of a layer; the final weights",
            none=_UPDATES,
        ),
        _WAYS,
        Learns(
            "clients",
            "the population, the summed gradients, the costs that are objectives, the final "
            "weights",
        ),
        *_ACROSS[:-1],
        _ACROSS[-1]._replace(secure="another client's update, losses or accuracies"),
    ),
    "fl-random": _CANDIDATES,
    "fl-rl": _CANDIDATES,
    "fl-darts": (
        Learns(
            "server",
            "the architecture parameters α; in each generation the summed gradient with respect to "
            "α and the relaxed network's federated losses and validation accuracy; the "
            "federation's node counts; the final weights",
            none=_UPDATES,
        ),
        _WAYS,
        Learns(
            "clients",
            "α, the summed gradients of the weights, the federation's node counts, the final "
            "weights",
        ),
        *_ACROSS,
    ),
    "fedgraph": (
        Learns(
            "server",
            "the averaged weights and federated figures; how many bytes pass between clients. "
            "Never an embedding: it relays boxes that it cannot open",
            none="each client's weights, mini-batch size and cost",
        ),
        Learns(
            "owner of a node",
            "when a peer uses this node as a neighbor; nothing about the peer's own nodes",
        ),
        Learns(
            "peer with an edge to a node",
            "with `share=hidden` that node's h·W of the second and later convolutions, anew in "
            "every round, from which it rebuilds part of the features of the node and its "
            "neighbors; with `share=all` also x·W of the first, from which it rebuilds all raw "
            "features of the node, exactly, within a few rounds; with `share=none` nothing",
        ),
        Learns("other clients", "the averaged weights"),
        Learns(
            "nobody",
            "labels or edges of another client, or features of its nodes that are more than "
            "`layers` edges away from everybody else's",
        ),
    ),
    "graphfl": (
        *_GRAPHFL,
        Learns("nobody", "features, labels, edges, tasks or adapted weights of another client"),
    ),
    "graphfl-ga": (
        *_GRAPHFL,
        Learns(
            "server, besides",
            "for each shape of network the training nodes of the clients that use it and the mean "
            "length of their steps; the mean inner rate; the clients' summed validation losses "
            "along the last step, by which the next is decided, and their mean losses with each "
            "way of propagation and, if there are several, with each of the `optimizers`; how many "
            "chromosomes each client evaluated and how long it took; with `mode=threshold` which "
            "clients are below it",
            none="each client's configuration",
        ),
        Learns(
            "clients, besides",
            "the weights of all shapes, the share of the training nodes that uses each, the mean "
            "length of a step, the mean inner rate, hops and teleport of the least loss, rate "
            "and optimizer of the outer step",
        ),
        Learns(
            "nobody",
            "features, labels, edges, tasks, adapted weights, populations or fitness of another "
            "client",
            secure="another client's configuration",
        ),
    ),
    "sfgnn": _SFGNN,
    "asfgnn": (
        *_SFGNN[:2],
        Learns(
            "server, besides",
            "the score of every trial; it proposes all hyperparameters. With `searcher=local` each "
            "client proposes its own, and the server learns the width of every trial, sums of the "
            "clients' votes for it (one for a width, or how good a client's best is with it), and "
            "at the end the hyperparameters of the network that stays",
            none="with `searcher=local` each client's votes",
        ),
        _SFGNN[2],
    ),
    "auto": (
        Learns(
            "server",
            "sums over the clients that describe the federation (nodes, edges, training nodes of "
            "each class, edges between equal labels, kinds of features, how unlike the mixes of "
            "classes are; how many clients lack labels, have one class, have edges to others); "
            "of every recipe the federated figures in each round; of the candidates sums and sums "
            "of squares of the clients' losses; how many clients take each candidate, and at how "
            "many the result is better or worse than a baseline; the common weights of each "
            "finalist; with `collect_models` each client's own model",
            none=f"{_UPDATES}, which candidate each client takes and how it compares",
        ),
        Learns(
            "clients",
            "the recipes and the summed updates; the federated figures of the candidates; how "
            "much candidates differ between clients; where the mixes of classes are unlike, the "
            "share of each class among all training nodes",
        ),
        _NOBODY,
    ),
}

#: What each party learns, by method. Where clients sum, all methods count predictions alike.
WHO_LEARNS_WHAT: dict[str, tuple[Learns, ...]] = {
    name: parties if len(parties) == 1 or name == "separate" else (
        parties[0], _PREDICTIONS, *parties[1:],
    )
    for name, parties in _METHODS.items()
}  # fmt: skip
