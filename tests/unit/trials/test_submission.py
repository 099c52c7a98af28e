"""The files of the challenges, byte by byte."""

import zipfile

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import Scores, read_keyed_scores
from asdf.trials.matching import read_matched
from asdf.trials.submission_files import FORMATS, check_submission, write_submission
from asdf.trials.trial_list import TrialList

SCORES = Scores(
    ["flac/E_3.flac", "flac/E_1.flac", "flac/E_2.flac"],
    np.array([0, 1, 0]),
    np.array([np.float32(0.1), -2.5, 1e-7], np.float32).astype(float),
    columns={"attack": ["A07", "", "A08"]},
)
PROTOCOL = TrialList(["E_1", "E_2", "E_3"], np.array([1, 0, 0]))
PLAIN = ("asvspoof2021", "ctrsvdd", "arena", "speech-df-arena")
EXPECTED = {
    "asvspoof2019": "E_1 - bonafide -2.5\nE_2 A08 spoof 1e-07\nE_3 A07 spoof 0.1\n",
    "asvspoof5": "filename\tcm-score\nE_1\t-2.5\nE_2\t1e-07\nE_3\t0.1\n",
    **dict.fromkeys(PLAIN, "E_1 -2.5\nE_2 1e-07\nE_3 0.1\n"),
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_bytes_in_the_order_of_the_protocol(tmp_path, kind):
    path = tmp_path / "out" / "submission.txt"
    write_submission(path, kind, SCORES, PROTOCOL)
    assert path.read_bytes() == EXPECTED[kind].encode()
    back = read_keyed_scores(path) if kind == "asvspoof2019" else read_matched(path, PROTOCOL)[0]
    expected = SCORES.scores[[1, 2, 0]].astype(np.float32)
    assert back.scores.astype(np.float32).tolist() == expected.tolist()


def test_without_a_protocol_the_order_is_that_of_the_scores(tmp_path):
    write_submission(tmp_path / "s", "asvspoof2021", SCORES)
    assert (tmp_path / "s").read_text() == "E_3 0.1\nE_1 -2.5\nE_2 1e-07\n"


def test_what_the_packages_could_not_read_is_refused(tmp_path):
    path = tmp_path / "s"
    labels, values = np.array([1, 0]), np.array([1.0, 2.0])
    spaced = Scores(["my take.wav", "b"], labels, values, columns={"attack": ["-", "A01"]})
    for kind in ("asvspoof2019", "asvspoof2021"):
        with pytest.raises(AsdfError, match=f"1 names cannot be written to a .* {kind}: 'my take'"):
            write_submission(path, kind, spaced)
    twice = Scores(["a/x.wav", "b/x.flac"], labels, values)
    with pytest.raises(AsdfError, match="refer to several trials without their folders: 'x'"):
        write_submission(path, "asvspoof5", twice)
    unknown = Scores(["a", "b"], labels, values)
    with pytest.raises(AsdfError, match="names the attack of every spoof"):
        write_submission(path, "asvspoof2019", unknown)
    assert not path.exists()
    write_submission(path, "asvspoof5", spaced)
    assert path.read_text() == "filename\tcm-score\nmy take\t1.0\nb\t2.0\n"


def test_every_format_is_tested():
    assert set(FORMATS) == {*EXPECTED, "at-add"}


def test_decisions_of_at_add_have_the_names_of_its_list(tmp_path):
    path = tmp_path / "predict.csv"
    trials = TrialList(["dev/E_1.wav", "dev/E_2.wav", "dev/E_3.wav"], np.array([1, 0, 0]))
    with pytest.raises(AsdfError, match="name the threshold"):
        write_submission(path, "at-add", SCORES, trials)
    # The score of E_2 itself: what lies at the threshold is real.
    write_submission(path, "at-add", SCORES, trials, threshold=float(SCORES.scores[2]))
    assert path.read_text() == "name,predict\nE_1.wav,fake\nE_2.wav,real\nE_3.wav,real\n"
    assert check_submission(path, "at-add", trials.ids) == 3


def test_a_zip_has_the_name_of_the_challenge_in_it(tmp_path):
    path = tmp_path / "submission.zip"
    write_submission(path, "asvspoof5", SCORES, PROTOCOL)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["score.tsv"]
        assert archive.read("score.tsv") == EXPECTED["asvspoof5"].encode()
    first = path.read_bytes()
    write_submission(path, "asvspoof5", SCORES, PROTOCOL)
    assert path.read_bytes() == first
    with pytest.raises(AsdfError, match="the contents of a zip of ctrsvdd are not known"):
        write_submission(path, "ctrsvdd", SCORES, PROTOCOL)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("asvspoof5", "filename cm-score\n", "line 1: expected"),
        ("asvspoof5", "filename\tcm-score\nE_1 1\n", "line 2: expected 'filename TAB cm-score'"),
        ("ctrsvdd", "E_1 1\nE_2 nan\n", "line 2: .* a finite number"),
        ("ctrsvdd", "E_1 1_0\n", "line 1: .* a finite number"),
        ("ctrsvdd", "E_1 1\nE_1 2\n", "line 2: 'E_1' is repeated"),
        ("ctrsvdd", "E_1 1\nE_2 2\nE_9 3\n", r"lacks 1 of 3 .* and has 1 other \('E_9'\)\."),
        ("asvspoof2019", "E_1 1\n", "line 1: expected 'UTT ATTACK KEY SCORE'"),
        ("at-add", "name,predict\nE_1,spoof\n", "line 2: .* real or fake"),
    ],
)
def test_what_would_be_refused_is_named(tmp_path, kind, text, message):
    path = tmp_path / "s"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        check_submission(path, kind, ["E_1", "E_2", "E_3"])
    for kind, content in EXPECTED.items():
        path.write_text(content)
        assert check_submission(path, kind, ["E_1", "E_2", "E_3"]) == 3
