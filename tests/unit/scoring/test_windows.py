"""Where windows lie, whatever the blocks that a recording is read in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from asdf.scoring.windows import count_windows, cut_windows, in_samples


def window_starts(length, window, hop, block=3):
    """Of a recording whose samples are 0, 1, 2, ..., so that a window says where it is from."""
    samples = np.arange(length, dtype=np.float32)
    starts = []
    for start, waveform in cut_windows(np.split(samples, range(block, length, block)), window, hop):
        np.testing.assert_array_equal(waveform, samples[start : start + window])
        starts.append(start)
    return starts


def test_the_last_window_ends_where_the_recording_ends():
    assert window_starts(10, 4, 2) == [0, 2, 4, 6]
    assert window_starts(11, 4, 2) == [0, 2, 4, 6, 7]
    assert window_starts(4, 4, 2) == [0]
    assert window_starts(3, 4, 2) == [0]
    assert in_samples(4, 2) == (64000, 32000)


@given(length=st.integers(1, 500), window=st.integers(1, 60), data=st.data())
def test_how_many_windows_there_will_be_is_known_before_they_are_cut(length, window, data):
    hop = data.draw(st.integers(1, window))
    assert count_windows(length, window, hop) == len(window_starts(length, window, hop))


@given(length=st.integers(1, 500), window=st.integers(1, 60), data=st.data())
def test_every_sample_is_in_a_window(length, window, data):
    hop = data.draw(st.integers(1, window))
    starts = window_starts(length, window, hop, data.draw(st.integers(1, 80)))
    last = max(0, length - window)
    assert starts == [*range(0, last, hop), last]
    covered = {sample for start in starts for sample in range(start, min(start + window, length))}
    assert covered == set(range(length))
    assert len(set(starts)) == len(starts)
    assert all(0 <= start <= max(0, length - window) for start in starts)
