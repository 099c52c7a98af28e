"""The demo corpus: synthetic voices and their spoofs, so that a recipe runs without downloads."""

from asdf.demo.partial import PARTIAL_SETS, PartialSet, make_partial_demo
from asdf.demo.synthetic_corpus import DEMO_SETS, DemoSet, make_demo_corpus

__all__ = [
    "DEMO_SETS",
    "PARTIAL_SETS",
    "DemoSet",
    "PartialSet",
    "make_demo_corpus",
    "make_partial_demo",
]
