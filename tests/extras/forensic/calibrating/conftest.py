"""What the tests of `calibrate` share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from asdf.extras.forensic import support


@pytest.fixture(scope="package", autouse=True)
def few_replicates() -> Iterator[None]:
    """Intervals are the subject of other tests: 500 maps take longer than all else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(support, "with_support", partial(support.with_support, replicates=50))
        yield
