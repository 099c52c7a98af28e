"""A check that ends, one that hangs, one after it."""

from tests.unit.benchmarks.broken_checks import hangs, sound

CHECKS = {"sound": sound, "hangs": hangs, "after": sound}
