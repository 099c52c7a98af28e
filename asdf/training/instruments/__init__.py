"""Clocks, profiles and progress lines of a training run."""
