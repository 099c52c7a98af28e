"""The files of the challenges, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import Scores, read_keyed_scores
from asdf.trials.matching import read_matched
from asdf.trials.submission import write_submission
from asdf.trials.trial_list import TrialList

SCORES = Scores(
    ["flac/E_3.flac", "flac/E_1.flac", "flac/E_2.flac"],
    np.array([0, 1, 0]),
    np.array([np.float32(0.1), -2.5, 1e-7], np.float32).astype(float),
    columns={"attack": ["A07", "", "A08"]},
)
PROTOCOL = TrialList(["E_1", "E_2", "E_3"], np.array([1, 0, 0]))
EXPECTED = {
    "asvspoof2019": "E_1 - bonafide -2.5\nE_2 A08 spoof 1e-07\nE_3 A07 spoof 0.1\n",
    "asvspoof2021": "E_1 -2.5\nE_2 1e-07\nE_3 0.1\n",
    "asvspoof5": "filename\tcm-score\nE_1\t-2.5\nE_2\t1e-07\nE_3\t0.1\n",
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_bytes_in_the_order_of_the_protocol(tmp_path, kind):
    path = tmp_path / "out" / "submission.txt"
    write_submission(path, kind, SCORES, PROTOCOL)
    assert path.read_bytes() == EXPECTED[kind].encode()
    back = read_keyed_scores(path) if kind == "asvspoof2019" else read_matched(path, PROTOCOL)[0]
    assert (
        back.scores.astype(np.float32).tolist()
        == SCORES.scores[[1, 2, 0]].astype(np.float32).tolist()
    )


def test_without_a_protocol_the_order_is_that_of_the_scores(tmp_path):
    write_submission(tmp_path / "s", "asvspoof2021", SCORES)
    assert (tmp_path / "s").read_text() == "E_3 0.1\nE_1 -2.5\nE_2 1e-07\n"


def test_what_the_packages_could_not_read_is_refused(tmp_path):
    path = tmp_path / "s"
    spaced = Scores(
        ["my take.wav", "b"],
        np.array([1, 0]),
        np.array([1.0, 2.0]),
        columns={"attack": ["-", "A01"]},
    )
    for kind in ("asvspoof2019", "asvspoof2021"):
        with pytest.raises(
            AsdfError, match=rf"1 names cannot stand in a file of {kind}: 'my take'"
        ):
            write_submission(path, kind, spaced)
    twice = Scores(["a/x.wav", "b/x.flac"], np.array([1, 0]), np.array([1.0, 2.0]))
    with pytest.raises(
        AsdfError, match="1 names stand for several trials without their folders: 'x'"
    ):
        write_submission(path, "asvspoof5", twice)
    unknown = Scores(["a", "b"], np.array([1, 0]), np.array([1.0, 2.0]))
    with pytest.raises(AsdfError, match="names the attack of every spoof"):
        write_submission(path, "asvspoof2019", unknown)
    assert not path.exists()
    write_submission(path, "asvspoof5", spaced)
    assert path.read_text() == "filename\tcm-score\nmy take\t1.0\nb\t2.0\n"
