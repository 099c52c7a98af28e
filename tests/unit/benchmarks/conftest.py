"""What tests of benchmarks share."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="package")
def old_objects_are_left_alone() -> Iterator[None]:
    """Each measurement begins with a garbage collection, which would walk all of pytest."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
