"""The former location of `asdf.demo`, for recipes copied from version 0.1."""

from asdf.demo import DEMO_SETS, DemoSet, make_demo_corpus

__all__ = ["DEMO_SETS", "DemoSet", "make_demo_corpus"]
