"""Detectors in layouts of the hub: transformers' audio classifiers, and DF-Arena's."""
