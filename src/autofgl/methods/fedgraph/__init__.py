"""FedGraph: graph convolution across clients, with learned sampling (Chen et al., 2021).

====================================  ==============================================================
Step of the paper                     Where
====================================  ==============================================================
Cross-client convolution, Eqs. 2, 3   :mod:`autofgl.sharing.across.forward`
Sealed rows between clients           :mod:`autofgl.sharing.across.forward`
A client's training, Algorithm 1      :mod:`autofgl.sharing.across.client`
Sampling, Algorithm 2, Eq. 7          :mod:`autofgl.nn.sampling`
The server, Algorithm 3, Eq. 8        ``server.py``
State of the agent, section 4.1       :mod:`autofgl.sharing.across.weight_state`
Reward, Eq. 9; DDPG, Algorithm 4      ``policy.py``, with :mod:`autofgl.search.ddpg`
====================================  ==============================================================
"""
