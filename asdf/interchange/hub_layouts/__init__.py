"""Detectors as the hub has them: transformers' audio classifiers, and DF-Arena's."""
