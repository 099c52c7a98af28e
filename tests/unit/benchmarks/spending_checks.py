"""A check that takes all of the time, and one after it."""

import time

from benchmarks.gpu.verdict import measured


def slow(setup):
    time.sleep(4.1)
    yield measured("slow", 1.0)


CHECKS = {"slow": slow, "late": slow}
