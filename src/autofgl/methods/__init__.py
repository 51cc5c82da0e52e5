"""Federated methods: thin compositions of graphs, networks, searchers and federation."""
