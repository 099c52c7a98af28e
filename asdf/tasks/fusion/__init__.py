"""Fused systems: what fusing gains, by folds of the development set."""
