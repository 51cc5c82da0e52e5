"""Find and train graph neural networks on graphs that may not be pooled."""
