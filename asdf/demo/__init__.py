"""The demo corpus: synthetic voices and their spoofs, so that a recipe runs without downloads."""

from asdf.demo.corpus import DEMO_SETS, DemoSet, make_demo_corpus

__all__ = ["DEMO_SETS", "DemoSet", "make_demo_corpus"]
