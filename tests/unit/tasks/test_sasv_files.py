"""Files of SASV trials: keys and scores in each layout of the field, and what is refused."""

import numpy as np
import pytest

from asdf.errors import AsdfError
from asdf.evaluation import Scores
from asdf.tasks.sasv.sasv_files import (
    SasvScores,
    join_systems,
    read_sasv_keys,
    read_sasv_scores,
    with_keys,
    write_sasv_scores,
)

PAIRS = [("D_1", "D_01"), ("D_2", "D_02"), ("D_1", "D_03")]
SCORES = (
    "spk\tfilename\tcm-score\tasv-score\tsasv-score\n"
    "D_2\tD_02\t0.2\t-1\t0.5\nD_1\tD_01\t0.1\t2\t0.25\nD_1\tD_03\t-0.3\t1\t-1.5\n"
)


@pytest.fixture
def write(tmp_path):
    def file(text, name="f.txt"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return file


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (  # the package of ASVspoof 5
            "spk\tfilename\tcm-label\tasv-label\nD_1\tD_01\tbonafide\ttarget\n"
            "D_2\tD_02\tbonafide\tnontarget\nD_1\tD_03\tspoof\tspoof\n",
            {},
        ),
        (  # its full table of keys
            "trial_anon tar_spk_anon cm-label asv-label attack_anon codec track_2_tag\n"
            "D_01 D_1 bonafide target bonafide C00 x\nD_09 D_9 bonafide target bonafide C00 dummy\n"
            "D_02 D_2 bonafide nontarget bonafide C01 x\nD_03 D_1 spoof spoof A09 C00 x\n",
            {"attack": ["-", "-", "A09"], "codec": ["C00", "C01", "C00"]},
        ),
        (  # ASVspoof5.eval.track_2.trial.tsv
            "D_1 D_01 F bonafide target\nD_2 D_02 M bonafide nontarget\nD_1 D_03 F A09 spoof\n",
            {"gender": ["F", "M", "F"], "attack": ["-", "-", "A09"]},
        ),
        (  # SASV 2022
            "D_1 D_01 bonafide target\nD_2 D_02 bonafide nontarget\nD_1 D_03 A09 spoof\n",
            {"attack": ["-", "-", "A09"]},
        ),
        (  # WildSpoof
            "D_1\tD_01\ttarget\tspoofceleb\nD_2\tD_02.flac\tnon\ttitw\nD_1\tD_03\tspoof\ttitw\n",
            {"source": ["spoofceleb", "titw", "titw"]},
        ),
        ("D_1 D_01 target\nD_2 D_02 nontarget\nD_1 D_03 spoof\n", {}),
    ],
)
def test_keys_of_each_layout(write, text, columns):
    trials = read_sasv_keys(write(text))
    assert trials.names() == PAIRS
    assert trials.kinds.tolist() == [0, 1, 2]
    assert dict(trials.columns) == columns


def test_scores_of_track_2(write):
    scores = read_sasv_scores(write(SCORES))
    assert scores.trials.names() == [PAIRS[1], PAIRS[0], PAIRS[2]]
    assert scores.trials.kinds is None
    assert (scores.cm.tolist(), scores.asv.tolist()) == ([0.2, 0.1, -0.3], [-1, 2, 1])
    keys = read_sasv_keys(write("D_1 D_01 target\nD_2 D_02 nontarget\nD_1 D_03 spoof\n", "k"))
    ordered = with_keys(scores, keys, "f.txt")
    assert ordered.trials is keys
    assert ordered.sasv.tolist() == [0.25, 0.5, -1.5]
    assert [part.tolist() for part in ordered.by_kind("asv")] == [[2], [-1], [1]]


def test_scores_of_one_system(write):
    single = SCORES.replace("0.2\t-1", "-\t-").replace("0.1\t2", "-\t-").replace("-0.3\t1", "-\t-")
    scores = read_sasv_scores(write(single))
    assert scores.cm is scores.asv is None
    assert scores.sasv.tolist() == [0.5, 0.25, -1.5]
    with_key = read_sasv_scores(write("D_1 D_01 6.9 target\nD_2 D_02 -1e-3 nontarget\n"))
    assert (with_key.sasv.tolist(), with_key.trials.kinds.tolist()) == ([6.9, -0.001], [0, 1])
    assert read_sasv_scores(write("D_1 D_01 6.9\n")).sasv.tolist() == [6.9]


def test_what_is_written_is_read_again(write, tmp_path):
    scores = read_sasv_scores(write(SCORES))
    path = tmp_path / "out.tsv"
    write_sasv_scores(path, scores)
    assert path.read_text().splitlines()[0] == "spk\tfilename\tcm-score\tasv-score\tsasv-score"
    again = read_sasv_scores(path)
    for system in ("cm", "asv", "sasv"):
        assert np.array_equal(again.of(system), scores.of(system))
    write_sasv_scores(path, SasvScores(scores.trials, sasv=scores.sasv))
    assert path.read_text().splitlines()[1] == "D_2\tD_02\t-\t-\t0.5"


def test_two_systems_in_files_of_their_own(write):
    keys = read_sasv_keys(write("D_1 D_01 target\nD_2 D_02 nontarget\nD_1 D_03 spoof\n", "k"))
    asv = read_sasv_scores(write("D_1 D_03 3\nD_1 D_01 1\nD_2 D_02 2\n"))
    names = [f"flac/D_{number}.flac" for number in ("01", "02", "03", "99")]
    cm = Scores(names, [1, 1, 0, 0], np.array([0.1, 0.2, 0.3, 0.0]))
    joined = join_systems(keys, cm, asv, ("cm.txt", "asv.txt"))
    assert (joined.cm.tolist(), joined.asv.tolist()) == ([0.1, 0.2, 0.3], [1, 2, 3])
    with pytest.raises(AsdfError, match=r"cm.txt: 1 utterances .* no CM score, .*: 'D_03'"):
        join_systems(keys, cm.select(np.arange(2)), asv, ("cm.txt", "asv.txt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no trial in it"),
        ("D_1 D_01 bonafide\n", "line 1: neither a header"),
        ("D_1 D_01 target\nD_2 D_02 nontarget\n", "no spoof trial"),
        ("D_1 D_01 target\nD_2 D_02 impostor\n", "line 2: the key 'impostor' is not one of"),
        ("D_1 D_01 target\nD_2 D_02\n", "line 2: expected 3 columns"),
        ("D_1 D_01 target\nD_1 D_01.flac spoof\n", "line 2: .* is already in line 1"),
        ("spk\tfilename\tcm-score\nD_1\tD_01\t1\n", "no column has the keys"),
    ],
)
def test_keys_that_are_refused(write, text, message):
    with pytest.raises(AsdfError, match=message):
        read_sasv_keys(write(text))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("0.25", "-"), "line 3: 1 of 3 trials have no sasv-score"),
        (("0.25", "nan"), "line 3: the sasv-score 'nan' is not finite"),
        (("0.25", "x"), "line 3: the score 'x' is not a number"),
        (("\t0.25", ""), "line 3: expected 5 columns"),
        (("D_2\tD_02", "D_1\tD_01"), "line 3: .* is already in line 2"),
    ],
)
def test_scores_that_are_refused(write, change, message):
    with pytest.raises(AsdfError, match=message):
        read_sasv_scores(write(SCORES.replace(*change)))


def test_scores_that_do_not_fit_the_keys(write):
    scores = read_sasv_scores(write(SCORES))
    text = "D_1 D_01 target\nD_2 D_02 nontarget\nD_1 D_03 spoof\n"
    more = read_sasv_keys(write(text + "D_2 D_03 nontarget\n", "k"))
    with pytest.raises(AsdfError, match=r"f: 1 of 4 trials have no score: 'D_2 D_03'"):
        with_keys(scores, more, "f")
    fewer = read_sasv_keys(write(text.replace("D_1 D_01", "D_9 D_01"), "k"))
    with pytest.raises(AsdfError, match=r"have no score: 'D_9 D_01'"):
        with_keys(scores, fewer, "f")
    scored = read_sasv_scores(write(SCORES + "D_7\tD_07\t1\t1\t1\n"))
    with pytest.raises(AsdfError, match=r"1 of 4 scored trials have no key: 'D_7 D_07'"):
        with_keys(scored, read_sasv_keys(write(text, "k")), "f")
