"""Pages to look at: a run's report, a comparison, a reproduced table.

One file each, without scripts and without a single request to anywhere.
"""
