r"""The continuous relaxation of A(L): DARTS (Liu et al., ICLR 2019, Eq. 2) on the SuperNet.

Every gene of a code (:mod:`autofgl.nn.space`) has a vector of logits, and stands for the softmax
of them. All logits are one flat vector, gene by gene in the order of ``Space.cardinalities``.

In the mixed network, with :math:`p` for the softmax of a gene:

- Stage 1 is :math:`\mathbf{h}_0 = \sum_k p_k \, \mathrm{act}_k(\mathbf{X W}_k + \mathbf{b}_k)`.
- Layer i reads :math:`\sum_j q_{ij} \mathbf{h}_j`, with :math:`q_{ij} = p_{ij} / (1 - p_{i,None})`
  over its predecessors j, and gives the sum of all its convolutions on that, weighted by the
  softmax of its type.
- None ends a network. So it does not enter the sum as an operation that gives zero, as DARTS
  has one, but as a probability: :math:`P(d) = p_{d+1,None} \prod_{i \le d} (1 - p_{i,None})`
  is that of d layers, and the fused output is the mean over the layers 1 to d, weighted by
  :math:`P(d)`; d = 0 hands on :math:`\mathbf{h}_0`.
- Stage 3 is a weighted sum as stage 1.

Where every gene is certain this is the network of the code, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax
from torch import Tensor
from torch.nn import functional

from autofgl.errors import UserError
from autofgl.nn.features import NodeInput
from autofgl.nn.kernels.dropout import dropout
from autofgl.nn.kernels.operation import Rng
from autofgl.nn.models.base import ACTIVATION_FUNCTIONS
from autofgl.nn.space import Fusion, Genotype, Space
from autofgl.nn.structure import Structure
from autofgl.nn.supernet.network import SuperNet

#: Logits of all genes, ``[sum of the cardinalities]``.
Logits = npt.NDArray[np.float64]

#: The least and, from one, the largest initial probability of None.
_LEAST = 1e-3


class RelaxedNetwork:
    """All networks of a SuperNet at once, each as far as the logits have it.

    Dropout stands where the stand-alone network has it: on the node features, on the input of the
    convolutions (one mask for all types of a layer, which read the same) and on the fused output.
    The SuperNet's mode decides about it.
    """

    def __init__(self, supernet: SuperNet) -> None:
        if supernet.per_predecessor:
            raise UserError("the relaxation needs convolutions that are shared by predecessors")
        self._net = supernet

    def __call__(
        self, logits: Tensor, x: NodeInput, structure: Structure, generator: Rng = None
    ) -> Tensor:
        """Class scores ``[n, classes]``, differentiable in the logits and the weights."""
        first, *middle, last = split_genes(self._net.space, logits)
        shares = [gene[1:].softmax(0) for gene in middle[1::2]]
        starts = self._net.input_stage(x, self._net.space.activations, generator)
        outputs = [_mixture(first.softmax(0), starts)]
        for index, (kinds, share) in enumerate(zip(middle[::2], shares, strict=True), start=1):
            mixed = _mixture(share, outputs)
            outputs.append(self._layer(index, kinds.softmax(0), mixed, structure, generator))
        ends = [gene.softmax(0)[:1] for gene in middle[1::2]]
        fused = outputs[0]
        if ends:
            fused = _mixture(fusion_weights(ends, shares, self._net.fusion), outputs)
        fused = dropout(fused, self._net.dropout, self._net.training, generator)
        scores = [
            ACTIVATION_FUNCTIONS[name](self._net.outputs[name](fused))
            for name in self._net.space.activations
        ]
        return _mixture(last.softmax(0), scores)

    def _layer(
        self, index: int, weights: Tensor, x: Tensor, structure: Structure, generator: Rng
    ) -> Tensor:
        x = dropout(x, self._net.layer_dropout, self._net.training, generator)
        outputs = [
            self._net.layers[f"{index}-{kind}"](x, structure, generator)
            for kind in self._net.space.types
        ]
        return _mixture(weights, outputs)


def split_genes(space: Space, logits: Tensor) -> tuple[Tensor, ...]:
    """The logits of each gene: IS, then type and predecessor by layer, then OS."""
    return torch.split(logits, space.cardinalities.tolist())


def fusion_weights(ends: Sequence[Tensor], shares: Sequence[Tensor], fusion: Fusion) -> Tensor:
    r"""What each output counts in the expected mean, ``[L + 1]``, stage 1 first.

    Of d layers each counts 1/d. If only leaves are fused, layer i counts as much as it is likely
    to be one, :math:`\prod_{k=i+1}^{d} (1 - q_{ki})`, over the sum of all. A layer *ends* the
    network with the probability of None, ``[1]``; its *shares* are the :math:`q_{ij}`.
    """
    like = ends[0] if ends else torch.ones(1)
    one, size = torch.ones_like(like), len(ends) + 1
    stops = torch.cat([*ends, one])
    reached = torch.cat([one, 1 - stops[:-1]]).cumprod(0)
    rows, member = [functional.pad(one, (0, size - 1))], like[:0]
    for depth, share in enumerate(shares, start=1):
        kept = member if fusion == "all" else member * (1 - share[1:])
        member = torch.cat([kept, one])
        rows.append(functional.pad(member / member.sum(), (1, size - 1 - depth)))
    return (reached * stops) @ torch.stack(rows)


def initial_logits(space: Space) -> Logits:
    """Logits with whose probabilities random codes are drawn: alike, but for None (``stop``)."""
    genes = [np.zeros(count) for count in space.cardinalities]
    if space.stop is not None:
        stop = min(max(space.stop, _LEAST), 1 - _LEAST)
        for index, gene in enumerate(genes[2:-1:2], start=1):
            gene[0] = np.log(index * stop / (1 - stop))
    return np.concatenate(genes)


def most_likely_genotype(space: Space, logits: Logits) -> Genotype:
    """The most likely choice of every gene, in canonical form.

    None ends the network where it wins, except at the first layer: DARTS too leaves its zero
    operation out of what it reads off.
    """
    code = np.array([int(np.argmax(gene)) for gene in _genes(space, logits)])
    code[2] = max(code[2], 1)
    return space.canonical(space.decode(code))


def likely_genotypes(
    space: Space, logits: Logits, count: int, rng: np.random.Generator
) -> list[Genotype]:
    """The most likely one, then others that are drawn by their probability; fewer if the same ones
    are drawn again and again.
    """
    genes = _genes(space, logits)
    first = most_likely_genotype(space, logits)
    found = {first.shape(): first}
    for _ in range(20 * count):
        if len(found) >= count:
            break
        code = np.array([rng.choice(len(gene), p=softmax(gene)) for gene in genes])
        code[2] = max(code[2], 1)
        one = space.canonical(space.decode(code))
        found.setdefault(one.shape(), one)
    return list(found.values())


def confidence(space: Space, logits: Logits) -> list[float]:
    """Probability of the most likely choice of every gene."""
    return [float(softmax(gene).max()) for gene in _genes(space, logits)]


def entropy(space: Space, logits: Logits) -> float:
    """Mean entropy of the genes, each over that of a uniform choice: 1 undecided, 0 decided."""
    shares = []
    for gene in _genes(space, logits):
        p = softmax(gene)
        uniform = np.log(len(gene)) or 1.0
        shares.append(float(-(p * np.log(np.maximum(p, 1e-300))).sum() / uniform))
    return float(np.mean(shares))


def _genes(space: Space, logits: Logits) -> list[Logits]:
    return np.split(logits, np.cumsum(space.cardinalities)[:-1])


def _mixture(weights: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """Weighted sum of equally shaped matrices."""
    mixed: Tensor = torch.tensordot(weights, torch.stack(list(matrices)), 1)
    return mixed
