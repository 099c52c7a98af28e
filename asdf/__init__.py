"""ASDF, the Artificial Speech Detection Framework."""

__version__ = "0.1.0"
