"""Random scores of two or three classes, for tests with Hypothesis; and scored trials."""

import numpy as np
from hypothesis import strategies as st

from asdf.evaluation import Scores

# Few values, so that ties of every kind and order come up; or any float.
_tied = st.lists(st.sampled_from([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=14)
_free = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=14)
classes = st.one_of(st.tuples(_tied, _tied), st.tuples(_free, _free))
triples = st.one_of(st.tuples(_tied, _tied, _tied), st.tuples(_free, _free, _free))


def scores_of(bona_fide, spoof) -> Scores:
    labels = np.repeat([1, 0], [len(bona_fide), len(spoof)])
    values = np.array([*bona_fide, *spoof], float)
    return Scores([f"u{i}" for i in range(len(labels))], labels, values)
