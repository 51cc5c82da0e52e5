"""Experiments: (setting × variant × seed) → runs → summary → pages, for papers and comparisons."""
