"""What a client owns: graphs, boundaries, datasets, splits, partitioners, files, validation."""
