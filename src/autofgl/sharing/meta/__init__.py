"""Meta-learning: clients learn a network that adapts to few labels (GraphFL, MAML)."""
