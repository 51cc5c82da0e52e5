"""Convolutions and graph networks that run on precomputed sparse operators."""
