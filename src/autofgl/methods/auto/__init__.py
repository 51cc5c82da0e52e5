"""The best model for every client, with a proof: a race, a search beyond it, a choice for each.

====================================  ==============================================================
Step                                  Where
====================================  ==============================================================
Look: what the federation is like     ``look.py``
Race: recipes that such data deserve  ``portfolio.py``, with :mod:`autofgl.runtime.race`
Search beyond the winner              ``beyond.py``, with :mod:`autofgl.runtime.variants` and
                                      :mod:`autofgl.methods.fl_agcns.refinement`
Finals: the leaders and the baselines ``bench.py``
Choice for each client                ``choice.py``
Proof on test nodes                   ``proof.py``
What a client does in all of these    ``client.py``
====================================  ==============================================================
"""
