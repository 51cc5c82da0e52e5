"""GraphFL (Wang et al., 2020), and with clients that configure themselves (Rezaei et al., 2024).

====================================  ==============================================================
Step of the papers                    Where
====================================  ==============================================================
MAML, tasks of a client, adaptation   :mod:`autofgl.sharing.meta.model`
Rounds and test phase of GraphFL      :mod:`autofgl.sharing.meta.sharing`
Chromosomes, section 3.1              ``configurations.py``
Genetic algorithm in a client, 3.2    ``configurator.py``, with :mod:`autofgl.search.genetic`
Continuous, parallel, threshold, 3.3  ``self_configured.py``, ``search_jobs.py``
Average of unlike networks (ours)     ``configurations.py``
====================================  ==============================================================
"""
