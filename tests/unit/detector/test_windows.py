from hypothesis import given
from hypothesis import strategies as st

from asdf.detector.windows import in_samples, window_starts


def test_the_last_window_ends_where_the_recording_ends():
    assert window_starts(10, 4, 2) == [0, 2, 4, 6]
    assert window_starts(11, 4, 2) == [0, 2, 4, 6, 7]
    assert window_starts(4, 4, 2) == [0]
    assert window_starts(3, 4, 2) == [0]
    assert in_samples(4, 2) == (64000, 32000)


@given(length=st.integers(1, 500), window=st.integers(1, 60), data=st.data())
def test_every_sample_is_in_a_window(length, window, data):
    hop = data.draw(st.integers(1, window))
    starts = window_starts(length, window, hop)
    covered = {sample for start in starts for sample in range(start, min(start + window, length))}
    assert covered == set(range(length))
    assert len(set(starts)) == len(starts)
    assert all(0 <= start <= max(0, length - window) for start in starts)
