"""Convolutions and graph networks that run on precomputed sparse operators.

:mod:`~autofgl.nn.space` and :mod:`autofgl.nn.models.spec` describe networks without importing
torch; everything else computes with it.
"""
