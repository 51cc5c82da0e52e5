"""FL-AGCNS: federated search for graph network architectures (Wang et al., 2021), and its rivals.

==================================  ================================================================
Step of the paper                   Where
==================================  ================================================================
Search space A(L), section 3.1      :mod:`autofgl.nn.space`
SuperNet, section 3.2               :mod:`autofgl.nn.supernet`
Federated loss FLL, Eq. 1           ``generations.py``, and ``losses`` in ``client.py``
Weights step, Eq. 2, Algorithm 2    ``generations.py``, and ``weights`` in ``client.py``
Evolution, Algorithm 1              :mod:`autofgl.search.feo`, and ``evolve`` in ``client.py``
The whole search, Algorithm 2       ``controller.py``
Trials after the search (ours)      ``refinement.py``
FL-Random, FL-RL, section 4.1       ``rivals.py``
FL-Gradient (DARTS), section 4.1    ``darts.py``
Does the SuperNet rank well? (ours) ``diagnosis.py``
==================================  ================================================================
"""
