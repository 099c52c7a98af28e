"""Explanation of scores: the stretches of time and frequency bands that a score depends on."""
