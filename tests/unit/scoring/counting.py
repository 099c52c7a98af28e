"""Counts of what is computed while a test runs."""

import pytest

from asdf.scoring.scorer import Scorer


def count_batches(monkeypatch: pytest.MonkeyPatch, fail_after: int | None = None) -> list[int]:
    """Count the batches of a list that are computed; raise after some, as at Ctrl-C."""
    batches: list[int] = []
    compute = Scorer.compute

    def count(scorer, waveforms, *wanted):
        if len(batches) == fail_after:
            raise KeyboardInterrupt
        batches.append(len(waveforms))
        return compute(scorer, waveforms, *wanted)

    monkeypatch.setattr(Scorer, "compute", count)
    return batches
