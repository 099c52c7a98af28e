"""What tests of benchmarks share."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="package")
def old_objects_are_left_alone() -> None:
    """Each measurement begins with a garbage collection, which would walk all of pytest.

    They stay aside: so would the collections of all later tests.
    """
    gc.collect()
    gc.freeze()
