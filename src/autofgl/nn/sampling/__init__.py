"""Sampled convolutions: a client's rows, and the rules that choose their neighbors."""
