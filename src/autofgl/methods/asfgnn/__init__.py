"""ASFGNN: separated-federated graph neural network with tuning (Zheng et al., 2020).

====================================  ==============================================================
Step of the paper                     Where
====================================  ==============================================================
GraphSAGE of a client, Algorithm 1    :mod:`autofgl.nn.models.sfgnn`
Algorithm 2; JS divergence, Eq. 2     :mod:`autofgl.sharing.own_encoder`, ``mixing``
All classes at every client (ours)    :mod:`autofgl.sharing.own_and_common`
Secret sharing, section 4.4           :mod:`autofgl.secure.shares`
Bayesian optimization, Algorithm 4    ``method.py``, with :mod:`autofgl.search.bayes`
The same with a part at each client   ``local_tuning.py``, with :mod:`autofgl.search.own_part`
====================================  ==============================================================
"""
