"""Fused systems: the gain from fusing, by folds of the development set."""
