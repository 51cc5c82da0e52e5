"""One pass of FedGraph's graph convolutions over the clients (Algorithm 1, lines 5 to 15).

Going down, each convolution samples the neighbors of the nodes it has to compute (Algorithm 2);
going up, it aggregates them. Neighbors at other clients are asked for on the way down, and their
owners, who thereby learn which of their own nodes to compute, send h W for them on the way up. What
a pass receives is a constant to it: gradients end at the client's border.

Notation: convolution k = 1..K maps h^(k) of the paper to h^(k+1), with K = L - 1. ``share=hidden``
is the paper's: from the second convolution on neighbors at other clients count too (Eq. 3), in the
first one only own ones do (Eq. 2). No raw feature travels, but every row is a function of features
with weights that the receiver has, and others come with every round: what peers can rebuild from
them is in :mod:`autofgl.audit.rows`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autofgl.errors import AutoFGLError
from autofgl.federation.party import Context
from autofgl.federation.payload import Payload
from autofgl.graphs.client_graph import Ints
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.models.networks import GCN
from autofgl.nn.sampling.neighborhood import Block, Neighborhood
from autofgl.nn.sampling.rules import Rule
from autofgl.secure.keys import KeyRing, Terms
from autofgl.secure.noise import RowNoise

#: Shown a client's received rows, for audits: tag of the pass, convolution, owner, the owner's
#: numbers of the nodes, and h W of each.
Listener: TypeAlias = Callable[[str, int, str, Ints, npt.NDArray[np.float32]], None]


class Exchange:
    """One client's line to those it shares edges with.

    Everything goes out with the answer to one call of the server and comes in with the next call:
    one message each way for all peers. Each box is for one peer, and only the two can open it
    (AES-GCM under a key that both alone know), so that the server, which relays it, sees its size
    and nothing else. Clients sign their keys, so that no server can put its own in place. What a
    client may ever ask of another is fixed when they meet: the ends of the edges that the two
    share.
    """

    def __init__(self, context: Context) -> None:
        self._name = context.name
        terms = Terms(context.run, "across", tuple(context.parties), 1, 0)
        self._keys = KeyRing(context.name, terms, fewest=1, identity=context.identity)
        self._sent: dict[str, bytes] = {}
        self._received: Mapping[str, bytes] = {}
        self._allowed: dict[str, Ints] = {}

    def agree(self, payload: Payload) -> Payload:
        """Answer a phase of the key exchange."""
        return self._keys.phases[payload["phase"]](payload["message"])

    def take(self, boxes: Mapping[str, bytes]) -> None:
        """What the peers sent in the last call."""
        self._received = boxes

    def sent(self) -> Payload:
        """What goes out with the answer to this call."""
        sent, self._sent = self._sent, {}
        return {"boxes": sent}

    def publish(self, topic: str, messages: Mapping[str, Any]) -> None:
        """Send an array to each peer named."""
        self._sent = {}
        for peer, array in messages.items():
            if peer in self._keys.peers:
                little = array.astype(array.dtype.newbyteorder("<"), copy=False)
                self._sent[peer] = self._keys.seal(peer, "fedgraph", topic, little.tobytes())

    def fetch(self, topic: str, peer: str, dtype: Any) -> Any:
        """The numbers that a peer sent to this client, in one row; nothing if there are none."""
        box = self._received.get(peer)
        if peer not in self._keys.peers or not box:
            return None
        text = self._keys.unseal(peer, "fedgraph", topic, box)
        return np.frombuffer(text, np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False)

    def meet(self, own: int) -> None:
        """Learn which of the ``own`` nodes others will ask for; it is an error if they do not
        exist.
        """
        self._allowed = {}
        for peer in self._keys.peers:
            wish = self.fetch("meet", peer, np.int64)
            if wish is not None:
                nodes = np.unique(wish)
                if len(nodes) and (nodes[0] < 0 or nodes[-1] >= own):
                    raise AutoFGLError(
                        f"{peer} has edges to nodes that {self._name} does not have: "
                        "check the boundaries of both graphs"
                    )
                self._allowed[peer] = nodes

    def wanted(self, topic: str) -> dict[str, Ints]:
        """The own nodes that each peer wants an embedding of now; to ask for others is an error."""
        wanted: dict[str, Ints] = {}
        for peer, allowed in self._allowed.items():
            nodes = self.fetch(topic, peer, np.int64)
            if nodes is not None and len(nodes):
                place = np.minimum(np.searchsorted(allowed, nodes), len(allowed) - 1)
                if not np.array_equal(allowed[place], nodes):
                    raise AutoFGLError(f"{peer} asks {self._name} for nodes it has no edge to")
                wanted[peer] = nodes
        return wanted


def exchanges(share: str, convolutions: int, asks: bool = True) -> int:
    """How often clients wait for each other in a pass: twice for every shared convolution, or once
    where owners know already what they will be asked for.
    """
    return (1 + asks) * sum(is_shared(share, k) for k in range(1, convolutions + 1))


def is_shared(share: str, k: int) -> bool:
    """Whether convolution ``k`` uses neighbors at other clients."""
    return share == "all" or (share == "hidden" and k > 1)


@dataclass(frozen=True)
class Surroundings:
    """What a client's passes have in common.

    ``internal`` is the neighborhood without nodes elsewhere; ``rows`` gives the input features of
    own nodes; ``last_rows`` are the last embeddings received, by convolution, ``[external,
    width]``: what a lost client sent last goes on being used, and nothing is zero.
    """

    neighborhood: Neighborhood
    internal: Neighborhood
    rows: Callable[[Ints], NodeInput]
    exchange: Exchange
    last_rows: dict[int, Tensor]
    share: str
    noise: RowNoise | None = None
    listener: Listener | None = None


class Pass:
    """One forward pass, made in steps; between two steps clients exchange.

    ``rules`` sample for each convolution, first to last; the batch is sorted; the tag is the same
    at all clients and never again; without a generator, of dropout, it is an evaluation. ``wanted``
    is what that of an earlier pass was asked for, by convolution, if the sample is the same: then
    nobody asks again.
    """

    def __init__(
        self,
        model: GCN,
        around: Surroundings,
        rules: Sequence[Rule],
        batch: Ints,
        tag: str,
        rng: np.random.Generator,
        generator: torch.Generator | None = None,
        wanted: dict[int, dict[str, Ints]] | None = None,
    ) -> None:
        self._model = model
        self._around = around
        self._rules = rules
        self.batch = batch
        self._tag = tag
        self._rng = rng
        self._generator = generator
        self._blocks: dict[int, Block] = {}
        self._inputs: dict[int, Ints] = {}
        self._asks = wanted is None
        self.wanted: dict[int, dict[str, Ints]] = wanted or {}
        self.output = torch.empty(0)
        self.cost = 0

    def steps(self) -> Iterator[None]:
        """Go down, then up; wait at every ``yield``. The cost is sampled edges times width."""
        yield from self._down()
        yield from self._up()

    def _down(self) -> Iterator[None]:
        targets = self.batch
        for k in range(len(self._rules), 0, -1):
            around = self._around
            near = around.neighborhood if self._shared(k) else around.internal
            block = self._rules[k - 1](near, targets, self._rng)
            self._blocks[k] = block
            targets = _own(block, near.own)
            if self._shared(k) and self._asks:
                asked = self._by_owner(_external(block, near.own))
                needs = {peer: near.remote[nodes] for peer, nodes in asked}
                around.exchange.publish(self._topic("need", k), needs)
                yield
                self.wanted[k] = around.exchange.wanted(self._topic("need", k))
            if self._shared(k):
                others = self.wanted.get(k, {})
                targets = np.unique(np.concatenate([targets, *others.values()]))
            self._inputs[k] = targets

    def _up(self) -> Iterator[None]:
        training = self._generator is not None
        hidden: NodeInput = self._around.rows(self._inputs[1])
        for k in range(1, len(self._rules) + 1):
            conv: Any = self._model.convs[k - 1]
            dropped = dropout(hidden, self._model.spec.dropout, training, self._generator)
            product = conv.lin.product(dropped)
            if self._shared(k):
                rows, inputs = product.detach().numpy(), self._inputs[k]
                topic, wanted = self._topic("rows", k), self.wanted.get(k, {})
                if self._around.noise is not None and wanted:
                    asked = np.unique(np.concatenate(list(wanted.values())))
                    rows = self._around.noise.cover(topic, rows[np.searchsorted(inputs, asked)])
                    inputs = asked
                answers = {p: rows[np.searchsorted(inputs, nodes)] for p, nodes in wanted.items()}
                self._around.exchange.publish(topic, answers)
                yield
            block = self._blocks[k]
            self.output = block.matrix @ self._sources(k, product) + conv.bias
            self.cost += block.edges * int(self.output.shape[1])
            hidden = self._model.activation(self.output)

    def _shared(self, k: int) -> bool:
        return is_shared(self._around.share, k)

    def _topic(self, kind: str, k: int) -> str:
        return f"{self._tag}/{kind}-{k}"

    def _sources(self, k: int, product: Tensor) -> Tensor:
        """h W of all sources of convolution ``k``: the own ones, then those of other clients."""
        block, own = self._blocks[k], self._around.neighborhood.own
        mine = product[np.searchsorted(self._inputs[k], _own(block, own))]
        if not self._shared(k):
            return mine
        external = _external(block, own)
        self._receive(k, external, int(product.shape[1]))
        return torch.cat([mine, self._around.last_rows[k][external]])

    def _receive(self, k: int, external: Ints, width: int) -> None:
        """Take in what the owners sent; of those that did not, the last received stays."""
        received = self._around.last_rows
        if k not in received:
            received[k] = torch.zeros(self._around.neighborhood.external, width)
        last, topic = received[k].numpy(), self._topic("rows", k)
        for peer, asked in self._by_owner(external):
            rows = self._around.exchange.fetch(topic, peer, np.float32)
            if rows is not None and len(rows) == len(asked) * width:
                last[asked] = rows.reshape(-1, width)
                if self._around.listener is not None:
                    remote = self._around.neighborhood.remote[asked]
                    self._around.listener(self._tag, k, peer, remote, last[asked])

    def _by_owner(self, external: Ints) -> Iterator[tuple[str, Ints]]:
        """External nodes of each owner that has any; they are sorted by owner."""
        near = self._around.neighborhood
        owner = near.owner[external]
        bounds = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        for begin, end in pairwise(bounds.tolist()):
            yield near.owners[owner[begin]], external[begin:end]


def _own(block: Block, own: int) -> Ints:
    """Sources of a block at this client; sources are sorted, so they come first."""
    return block.sources[: np.searchsorted(block.sources, own)]


def _external(block: Block, own: int) -> Ints:
    """Sources of a block at other clients, numbered from 0."""
    return block.sources[np.searchsorted(block.sources, own) :] - own
