"""Parties, payloads and the engines that carry them."""
