"""Methods side by side: the same graphs, the same cuts, the same seeds, the same budget."""
