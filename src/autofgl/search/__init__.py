"""Ask/tell searchers over one kind of search space; they know neither graphs nor clients."""
