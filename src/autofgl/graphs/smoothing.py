"""Features averaged over a whole graph before it is cut: a comparison, and nothing private.

GraphFL's public code computes SGC's features over the edges of all clients together, so that a
client's rows tell of nodes it must not know. Figures that were published with it can only be
compared with figures that were made so.
"""

import numpy as np
import scipy.sparse as sp

from autofgl.graphs.client_graph import ClientGraph, Features, compact


def smoothed(graph: ClientGraph, hops: int) -> Features:
    """(D̃^(-1/2) (A + I) D̃^(-1/2))^hops X, as SGC has it (Wu et al., 2019, Eq. 6)."""
    n = graph.num_nodes
    source, target = graph.edge_index
    real = source != target
    ends = (np.append(target[real], np.arange(n)), np.append(source[real], np.arange(n)))
    matrix = sp.csr_array((np.ones(len(ends[0])), ends), shape=(n, n))
    scale = sp.diags_array(np.asarray(matrix.sum(axis=1)).reshape(-1) ** -0.5)
    matrix = scale @ matrix @ scale
    x = sp.csr_array(graph.x, dtype=np.float64)
    for _ in range(hops):
        x = matrix @ x
    return compact(x.toarray())
