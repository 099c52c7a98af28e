"""Score files of others, and files of decisions."""

import gzip

import pytest

from asdf.errors import AsdfError
from asdf.evaluation import (
    read_any_scores,
    read_asv_scores,
    read_keyed_scores,
    read_unlabelled_scores,
    write_scores,
)
from asdf.trials.formats import read_decisions, read_score_file
from asdf.trials.matching import read_matched
from asdf.trials.trial_list import UNLABELLED, TrialList

LABELS = {"E_1": 1, "E_2": 0}


def test_keyed(tmp_path):
    path = tmp_path / "s.txt.gz"
    path.write_bytes(gzip.compress(b"LA E_1 - bonafide 2.5\nLA_E_2 A07 spoof -1e-3\n"))
    scores = read_keyed_scores(path)
    assert scores.ids == ["LA E_1", "LA_E_2"]
    assert scores.labels.tolist() == [1, 0]
    assert scores.scores.tolist() == [2.5, -0.001]
    assert scores.attacks == ["-", "A07"]


CSV = "ID_audio,label,score_spoof,score_bonafide\n"


def test_a_csv_of_deepfense(tmp_path):
    path = tmp_path / "s.csv"
    path.write_text(f"{CSV}E_1,1,-1.5,2.5\nE, 2,0,1.75,-0.75\n")
    scores = read_any_scores(path)
    assert scores.ids == ["E_1", "E, 2"] and scores.labels.tolist() == [1, 0]
    assert scores.scores.tolist() == [4.0, -2.5]
    # Labels that its config did not know are none.
    path.write_text(f"{CSV}E_1,-1,-1.5,2.5\nE_2,0,1.75,-0.75\n")
    with pytest.raises(AsdfError, match="has no label"):
        read_any_scores(path)
    assert read_any_scores(path, LABELS).scores.tolist() == [4.0, -2.5]


@pytest.mark.parametrize(
    "text",
    [
        "file,score\nE_1.wav,0.5\nE_2.wav,-0.5\n",
        "filename,cm-score\r\nE_1,0.5\r\nE_2,-0.5\r\n",
        "\ufefffile;score\nE_1;0,5\nE_2;-0,5\n",
        "score;Utterance ID\n5e-1;E_1\n-0.5;E_2\n",
        "path|attack|LLR\nE_1|-|0.5\nE_2|A07|-0.5\n",
        "file_name\tseconds\tscore\nE_1\t3.2\t0.5\nE_2\t1.5\t-0.5\n",
        # pandas' index, and quotes.
        ',"file","score"\n0,"flac/E_1.flac",0.5\n1,"flac/E_2.flac",-0.5\n',
        'file,score,text\nE_1,0.5,"Yes, 1"\nE_2, "-0.5",no\n',
        "utt,score_bonafide,score_spoof\nE_1,0.25,-0.25\nE_2,0,0.5\n",
        "Output, E_1, 1, 0.5\nOutput, E_2, 1, -0.5\n",
        "Output, E_1, -1, 0.5\nTesting took 3 s, 2 files\nOutput, E_2, -1, -0.5\n",
        "wav\\eval\\E_1.wav 0.5\nwav\\eval\\E_2.wav -0.5\n",
        "C:\\data\\E_1.wav 0.5\nC:\\data\\E_2.wav -0.5\n",
    ],
)
def test_what_other_programs_write_takes_labels_from_the_protocol(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_bytes(text.encode())
    trials = TrialList(["flac/E_1.flac", "flac/E_2.flac"], [1, 0])
    scores, _ = read_matched(path, trials)
    assert (scores.labels.tolist(), scores.scores.tolist()) == ([1, 0], [0.5, -0.5])
    with pytest.raises(AsdfError, match="has no label"):
        read_any_scores(path)


@pytest.mark.parametrize(
    "text",
    [
        "file,label,score\nE_1,bonafide,0.5\nE_2,spoof,-0.5\n",
        "file;score;label\nE_1;0,5;1\nE_2;-0,5;0\n",
        "path,label,score\nE_1,1.0,0.5\nE_2,0.0,-0.5\n",
        "path\tlabel\tscore\nE_1\tReal\t0.5\nE_2\tFake\t-0.5\n",
        "E_1 - Bonafide 0.5\nE_2 A07 Spoof -0.5\n",
        "E_1 - BONAFIDE 0.5\nE_2 A07 spoof -0.5\n",
        "E_1 1.0 0.5\nE_2 0.0 -0.5\n",
    ],
)
def test_labels_of_other_programs(tmp_path, text):
    path = tmp_path / "s.csv"
    path.write_text(text)
    scores = read_any_scores(path)
    assert scores.ids == ["E_1", "E_2"]
    assert (scores.labels.tolist(), scores.scores.tolist()) == ([1, 0], [0.5, -0.5])
    # A comma is decimal in numbers alone.
    path.write_text("file;score;label\na,b.wav;0,5;1\n")
    assert read_score_file(path).ids == ["a,b.wav"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.wav,0.5\nb.wav,0.1\n", "line 1: expected 'UTT SCORE'.* needs a header such as file,sc"),
        (f"{CSV}E_1,1,-1.5,2.5\nE_2,0,1.75", f"line 3: expected '{CSV.strip()}', found 'E_2"),
        (f"{CSV}E_1,1,-1.5,2.5\nE_2,0,nan,1", "line 3: the score of 'E_2' is nan"),
        (f"{CSV}E_1,1,-1.5,2.5\nE_2,0,x,1", "line 3: .*1-x"),
        (f"{CSV}E_1,1,-1.5,2.5\nE_1,1,0,1", "line 3: 'E_1' was already scored in line 2"),
        (f"{CSV}E_1,1,-1.5,2.5\n{CSV}", "line 3: .*score_bonafide-score_spoof"),
        ("file,fake_probability\na,0.5\n", "line 1: .* needs a header such as file,score"),
        ("file,score\na,0.5\nb\n", "line 3: expected 'file,score', found 'b'"),
        ("file;score\na;1.234,5\n", r"line 2: the score '1\.234\.5' is not a number"),
        ("file,score\na,0.5\nb,\n", "line 3: the score '' is not a number"),
        ("file,score\na,0.5\nfile,score\n", "line 3: the score 'score' is not a number"),
        ("file,score\na\\b,0.5\na/b,0.5\n", "line 3: 'a/b' was already scored in line 2"),
        ("file,score,llr\na,0.5,1\n", "the columns score, llr all hold scores"),
        ("Output, a, 1\n", "line 1: expected 'Output, a, 1'"),
    ],
)
def test_tables_of_scores_that_do_not_fit(tmp_path, text, message):
    path = tmp_path / "s.csv"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        read_any_scores(path)


@pytest.mark.parametrize(
    "text",
    ["E_1 0.5\nE_2 -0.5\n", "filename\tcm-score\nE_1\t0.5\nE_2\t-0.5\n", "E_2 -0.5\nE_1 0.5\n"],
)
def test_unlabelled_takes_labels_from_the_protocol(tmp_path, text):
    path = tmp_path / "s.tsv"
    path.write_text(text)
    scores = read_unlabelled_scores(path, LABELS)
    rows = zip(scores.ids, scores.labels, scores.scores, strict=True)
    assert sorted(rows) == [("E_1", 1, 0.5), ("E_2", 0, -0.5)]


def test_unlabelled_and_protocol_must_agree(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("E_1 0.5\nE_3 7\nE_2 -0.5\n")
    with pytest.raises(AsdfError, match="1 of 3 scored trials are not in the protocol: 'E_3'"):
        read_unlabelled_scores(path, LABELS)
    subset = read_unlabelled_scores(path, LABELS, ignore_others=True)
    assert (subset.ids, subset.scores.tolist()) == (["E_1", "E_2"], [0.5, -0.5])
    with pytest.raises(AsdfError, match="1 of the 3 trials of the protocol have no score: 'E_4'"):
        read_unlabelled_scores(path, {**LABELS, "E_4": 0}, ignore_others=True)


def test_unlabelled_names_the_line_also_when_others_are_left_out(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("E_3 7\nE_1 0.5\nE_2 nan\n")
    with pytest.raises(AsdfError, match="line 3: the score of 'E_2' is nan"):
        read_unlabelled_scores(path, LABELS, ignore_others=True)
    path.write_text("E_1 0.5\nE_2 1\nfilename cm-score\n")
    with pytest.raises(AsdfError, match="line 3: the score 'cm-score' is not a number"):
        read_unlabelled_scores(path, LABELS)


def test_white_space_around_the_brace_of_a_document(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(' { \n"complete": true, "recordings": [{"path": "a.wav", "score": 0.5}]}\n')
    assert read_score_file(path).ids == ["a.wav"]


def test_no_labels_anywhere(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("E_1 0.5\n")
    with pytest.raises(AsdfError, match=r"line 1: 'E_1 0\.5' has no label\. Give the protocol"):
        read_any_scores(path)
    path.write_text("")
    with pytest.raises(AsdfError, match="no trial"):
        read_any_scores(path)


def test_malformed_lines_name_their_location(tmp_path):
    path = tmp_path / "s.txt"
    path.write_text("a - bonafide 0.5\nb A01 fake 0.1\n")
    expected = r"expected 'UTT ATTACK bonafide\|spoof SCORE', found 'b A01 fake 0\.1'"
    with pytest.raises(AsdfError, match=f"line 2: {expected}"):
        read_keyed_scores(path)
    path.write_text("E_1 0.5\nE_2\n")
    with pytest.raises(AsdfError, match="line 2: expected 'UTT SCORE', found 'E_2'"):
        read_unlabelled_scores(path, LABELS)


def test_a_name_with_a_tab_has_its_label(tmp_path):
    path = tmp_path / "scores.txt"
    write_scores(path, ["a\tb.flac", "c.flac"], [1, 0], [0.5, 0.25])
    scores = read_any_scores(path)
    assert (scores.ids, scores.labels.tolist()) == (["a\tb.flac", "c.flac"], [1, 0])


def test_asv_scores(tmp_path):
    path = tmp_path / "asv.txt"
    path.write_text("bonafide target 7.5\nbonafide nontarget -3\nA07 spoof 1\nbonafide target 2\n")
    scores = read_asv_scores(path)
    assert scores.target.tolist() == [7.5, 2.0]
    assert scores.nontarget.tolist() == [-3.0]
    assert scores.spoof.tolist() == [1.0]
    path.write_text("bonafide target 7.5\nbonafide nontarget -3\n")
    with pytest.raises(AsdfError, match="no spoof trial"):
        read_asv_scores(path)
    path.write_text("bonafide target inf\n")
    with pytest.raises(AsdfError, match="line 1: the score 'inf' is not finite"):
        read_asv_scores(path)
    path.write_text("bonafide client 1\n")
    with pytest.raises(AsdfError, match="line 1: expected 'SOURCE target"):
        read_asv_scores(path)


ASV_KEYS = """LA_1 LA_E_1 alaw ita_tx bonafide target notrim eval
LA_1 LA_E_2 alaw ita_tx bonafide nontarget notrim eval
LA_1 LA_E_3 alaw ita_tx A07 spoof notrim eval
LA_1 LA_E_4 none loc_tx bonafide target notrim progress
"""


def test_asv_scores_whose_keys_stand_in_another_file(tmp_path):
    scores, keys = tmp_path / "score.txt", tmp_path / "trial_metadata.txt"
    scores.write_text("LA_1 LA_E_1 2.5\nLA_1 LA_E_2 -1\nLA_1 LA_E_3 0.5\nLA_1 LA_E_4 3\n")
    keys.write_text(ASV_KEYS)
    every = read_asv_scores(scores, keys)
    assert every.target.tolist() == [2.5, 3.0]
    assert (every.nontarget.tolist(), every.spoof.tolist()) == ([-1.0], [0.5])
    assert read_asv_scores(scores, keys, "eval").target.tolist() == [2.5]
    with pytest.raises(AsdfError, match=r"no nontarget trials of subset progress"):
        read_asv_scores(scores, keys, "progress")
    with pytest.raises(AsdfError, match=r"line 1: expected .* need --asv-keys"):
        read_asv_scores(scores)
    keys.write_text("".join(ASV_KEYS.splitlines(keepends=True)[:3]))
    with pytest.raises(AsdfError, match=r"has 4 scores, .* 3 keys: both must list the same trials"):
        read_asv_scores(scores, keys)
    keys.write_text(ASV_KEYS.replace("spoof notrim", "fake notrim"))
    with pytest.raises(AsdfError, match=r"trial_metadata\.txt, line 3: expected eight columns"):
        read_asv_scores(scores, keys)


@pytest.mark.parametrize("content", ["u1 A01 spoof 1_0.5\n", "u1 1_0.5\n", f"{CSV}u1,1,1_0,2\n"])
def test_an_underscore_makes_no_number_in_any_format(tmp_path, content):
    path = tmp_path / "scores"
    path.write_text(content)
    with pytest.raises(AsdfError, match=r"'(1_0.5|2-1_0)' is not a number"):
        read_any_scores(path, {"u1": 1})


@pytest.mark.parametrize(
    "text",
    [
        "a.wav bonafide\nb c.wav spoof\n",
        "name,predict\na.wav,real\nb c.wav,fake\n",
        'name,predict\n"a.wav","Real"\n"b c.wav","FAKE"\n',
        "filename\tlabel\na.wav\t1\nb c.wav\t0\n",
        "a.wav genuine\nb c.wav deepfake\n",
    ],
)
def test_words_become_scores(tmp_path, text):
    path = tmp_path / "d.txt"
    path.write_text(text)
    file = read_decisions(path)
    assert (list(file.ids), file.scores.tolist()) == (["a.wav", "b c.wav"], [1, 0])
    assert file.labels.tolist() == [UNLABELLED] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1\nb 0.7\n", "line 2: expected an utterance and one of.*leave out --decisions"),
        ("a 1\nname,predict\n", "line 2: expected an utterance and one of"),
        ("a 1\nb\n", "line 2"),
        ("a 1\na 0\n", "already"),
        ("name,predict\n", "no trial"),
    ],
)
def test_others_are_refused(tmp_path, text, message):
    path = tmp_path / "d.txt"
    path.write_text(text)
    with pytest.raises(AsdfError, match=message):
        read_decisions(path)
