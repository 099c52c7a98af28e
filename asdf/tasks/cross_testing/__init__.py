"""Bona fide cross-testing: each set of spoofs against each of several sets of genuine speech."""
