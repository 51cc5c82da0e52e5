"""Pages to look at, each a file of its own: a run's report, a comparison, a reproduced table."""
