"""Convolution across clients: neighbors at other clients count, too (FedGraph)."""
