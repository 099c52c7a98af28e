"""SASV metrics of a network that compares recordings with enrolments."""

from __future__ import annotations

import json

import numpy as np
import pytest

from asdf.commands import evaluate
from asdf.errors import AsdfError, UsageError
from asdf.evaluation import min_a_dcf, write_scores
from asdf.tasks.sasv.pair_scores import is_pair_list, read_pair_scores
from asdf.trials.lists import read_list
from asdf.trials.table import write_trials

ROWS = [
    ("a.flac", 1, "anna.wav", "target"),
    ("b.flac", 1, "ben.wav", "target"),
    ("a.flac", 0, "ben.wav", "nontarget"),
    ("b.flac", 0, "anna.wav", "nontarget"),
    ("c.flac", 0, "anna.wav", "spoof"),
    ("d.flac", 0, "ben.wav", "spoof"),
    ("e.flac", 1, "anna.wav", "target"),
]
SCORES = np.array([3.0, 0.5, -1.0, 1.0, -2.0, 2.0, 4.0])


@pytest.fixture
def files(tmp_path):
    """The list, as csv, and the score file of its trials in another order."""
    text = "path,label,reference,asv_label\n"
    text += "".join(",".join(map(str, row)) + "\n" for row in ROWS)
    (tmp_path / "list.csv").write_text(text)
    ids = [f"{path}|{reference}" for path, _, reference, _ in ROWS]
    order = [6, 2, 0, 5, 4, 1, 3]
    labels = [ROWS[index][1] for index in order]
    path = tmp_path / "scores.txt"
    write_scores(path, [ids[index] for index in order], labels, SCORES[order])
    return tmp_path


def test_trials_are_of_the_kinds_that_the_list_states(files):
    scores = read_pair_scores(files / "scores.txt", files / "list.csv")
    target, nontarget, spoof = scores.by_kind("sasv")
    assert target.tolist() == [3.0, 0.5, 4.0]
    assert nontarget.tolist() == [-1.0, 1.0] and spoof.tolist() == [-2.0, 2.0]
    assert list(scores.trials.speakers)[:3] == ["anna.wav", "ben.wav", "ben.wav"]
    assert list(scores.trials.utterances)[:3] == ["a", "b", "a"]


@pytest.mark.parametrize("table", [False, True])
def test_the_command_has_the_a_dcf_of_hand(files, capsys, table):
    keys = files / "list.csv"
    if table:  # as a run writes it next to its scores
        keys = files / "trials.tsv"
        write_trials(keys, read_list(files / "list.csv", files))
    assert is_pair_list(keys)
    output = files / "out.json"
    words = [str(files / "scores.txt"), "--keys", str(keys), "--json", str(output)]
    assert evaluate.main([*words, "--replicates", "0"]) == 0
    (record,) = json.loads(output.read_text())
    # The priors and costs are ASVspoof 5's.
    p_target, p_nontarget, p_spoof = 0.9405, 0.0095, 0.05
    all_accepted = 10 * (p_nontarget + p_spoof)
    # At 0.5: no target is missed, one of two nontargets and one of two spoofs are accepted. From
    # above 2 on, no impostor is, and one of three targets is missed: that costs more.
    best = 10 * (p_nontarget / 2 + p_spoof / 2)
    assert best < p_target / 3 and all_accepted < p_target
    assert record["a_dcf"] == pytest.approx(best / all_accepted)
    found = min_a_dcf(SCORES[[0, 1, 6]], SCORES[[2, 3]], SCORES[[4, 5]])
    assert record["a_dcf"] == pytest.approx(found[0])
    assert "min a-DCF" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1,anna.wav,target", "1,anna.wav,spoof"), "label of 2 trials contradict each other"),
        ((",nontarget", ",stranger"), "says target, nontarget or spoof .* has 'stranger'"),
        ((",nontarget", ",spoof"), "lacks one of them"),
        (("c.flac", "z.flac"), r"1 have no score: 'z\.flac\|anna\.wav'"),
    ],
)
def test_what_contradicts_is_named(files, change, message):
    path = files / "list.csv"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(AsdfError, match=message):
        read_pair_scores(files / "scores.txt", path)


def test_fusions_are_of_two_systems(files):
    words = [str(files / "scores.txt"), "--keys", str(files / "list.csv"), "--fuse", "sum"]
    with pytest.raises(UsageError, match="is a list of pairs"):
        evaluate.main(words)


def test_keys_of_others_are_no_pair_lists(tmp_path):
    path = tmp_path / "keys.tsv"
    path.write_text("spk\tfilename\tcm-label\tasv-label\nS1\ta\tbonafide\ttarget\n")
    assert not is_pair_list(path)
