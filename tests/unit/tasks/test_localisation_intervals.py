"""Bootstrap intervals of range metrics: replicates against recordings that are really drawn."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.metrics.intervals import rate_interval
from asdf.segments import Segment
from asdf.tasks.localisation.located_measures import (
    LocatedRecording,
    agreement_of,
    localisation,
    localisation_intervals,
    pooled_stretches,
    range_eer,
)


def drawn(count: int) -> list[LocatedRecording]:
    rng = np.random.default_rng(0)
    recordings = []
    for index in range(count):
        parts = (Segment(0.31, 0.61),) if index % 2 else ()
        recordings.append(LocatedRecording(rng.normal(0, 1, 50), 0.02, parts, 0.99))
    return recordings


@pytest.mark.parametrize("speakers", [None, ["a", "b", "c", "a", "b", "c", "a", "b"]])
def test_replicates_are_those_of_recordings_drawn_one_by_one(speakers):
    recordings = drawn(8)
    measured = localisation(recordings, threshold=0.1)
    result = localisation_intervals(recordings, measured, speakers=speakers, replicates=40, seed=3)
    names = speakers or [str(index) for index in range(8)]
    groups = sorted(set(names))
    rng = np.random.default_rng(3)
    rates = []
    shares = []
    scores = []
    for _ in range(40):
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)))
        chosen = []
        for name, recording in zip(names, recordings, strict=True):
            chosen += [recording] * int(times[groups.index(name)])
        stretches = pooled_stretches(chosen)
        if stretches.is_bona_fide.all():
            continue
        rates.append(range_eer(stretches).rate)
        shares.append(agreement_of(stretches, 0.1).iou)
        scores.append(agreement_of(stretches, 0.1).f1)
    assert result.groups == len(groups)
    for interval, replicated in (
        (result.range_eer, rates),
        (result.iou, shares),
        (result.f1, scores),
    ):
        values = np.array(replicated)
        expected = rate_interval(interval.value, values, trials=0, groups=len(groups))
        assert (interval.low, interval.high) == (
            pytest.approx(expected.low),
            pytest.approx(expected.high),
        )
    assert result.range_eer.value == range_eer(pooled_stretches(recordings)).rate
    assert result.range_eer.low < result.range_eer.value < result.range_eer.high


def test_too_few_recordings_have_no_interval():
    recordings = drawn(2)[1:]
    with pytest.raises(AsdfError, match="too few are spoofed"):
        localisation_intervals(recordings, localisation(recordings), replicates=20)
