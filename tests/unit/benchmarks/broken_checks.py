"""Checks that go wrong in every way, for tests of their runner; checks after them must run."""

import os
import signal
import sys
import time
from pathlib import Path

from benchmarks.gpu.verdict import at_most, measured


def sound(setup):
    yield at_most("one", 1.0, 2.0)
    print("not a message")
    yield at_most("three", 3.0, 2.0)


def raises(setup):
    yield measured("before", 5.0)
    raise ValueError("no such thing")


def breaks_the_device(setup):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


def writes_its_process(setup):
    yield measured("process", os.getpid())


def crashes(setup):
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGSEGV)
    yield measured("never", 0.0)


def gives_nothing(setup):
    return []


def hangs(setup):
    Path(setup.folder, "hangs").touch()
    time.sleep(600)
    return []


CHECKS = {
    "sound": sound,
    "raises": raises,
    "first process": writes_its_process,
    "breaks the device": breaks_the_device,
    "second process": writes_its_process,
    "crashes": crashes,
    "third process": writes_its_process,
    "gives nothing": gives_nothing,
    "last": sound,
}
