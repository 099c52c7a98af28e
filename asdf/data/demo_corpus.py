"""The former name of `asdf.demo`: recipes that were copied from version 0.1 import it from here."""

from asdf.demo import DEMO_SETS, DemoSet, make_demo_corpus

__all__ = ["DEMO_SETS", "DemoSet", "make_demo_corpus"]
