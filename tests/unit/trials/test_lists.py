"""Lists: they are read as they are, and what is wrong in them is named with file and line."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.trials.lists import check_both_classes, check_files, read_asvspoof2019_protocol, read_list
from asdf.trials.trial_list import TrialList, join


@pytest.fixture
def write(tmp_path):
    def write(content: str | bytes, name: str = "list.txt") -> Path:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


def test_ids_labels_and_order_are_those_of_the_file(write, tmp_path):
    utterances = read_list(write("b/x.flac 1\na/y.wav 0\n\nc 2/z 1.flac 1\n"), tmp_path, "mine")
    assert utterances.ids == ["b/x.flac", "a/y.wav", "c 2/z 1.flac"] and len(utterances) == 3
    assert utterances.labels.tolist() == [1, 0, 1] and utterances.labels.dtype == np.int8
    assert utterances.path(2) == tmp_path / "c 2" / "z 1.flac" and utterances.name == "mine"


def test_labels_that_pandas_wrote_as_floats(write, tmp_path):
    for content, name in (("a b 1.0\nc 0.0\n", "l.txt"), ("path,label\na b,1.0\nc,0.0\n", "l.csv")):
        utterances = read_list(write(content, name), tmp_path)
        assert (utterances.ids, utterances.labels.tolist()) == (["a b", "c"], [1, 0])


def test_a_byte_order_mark_and_windows_line_ends_change_nothing(write, tmp_path):
    plain = read_list(write("a.flac 1\nb.flac 0\n"), tmp_path)
    other = read_list(write(b"\xef\xbb\xbfa.flac 1\r\nb.flac 0\r\n"), tmp_path)
    assert other.ids == plain.ids and other.labels.tolist() == [1, 0]
    assert other.digest() == plain.digest()


@pytest.mark.parametrize(
    "line", ["a.flac 2", "a.flac bonafide", "a.flac", "1", "a.flac 1 0.5", "a.flac\t1", "a.flac 01"]
)
def test_a_bad_label_is_named_with_file_and_line(write, tmp_path, line):
    path = write(f"ok.flac 1\n\n{line}\n")
    with pytest.raises(AsdfError, match=r"1 \(bona fide\) or 0 \(spoof\)") as caught:
        read_list(path, tmp_path)
    assert str(caught.value).startswith(f"{path}, line 3: ")


def test_an_utterance_named_twice_is_named_with_both_lines(write, tmp_path):
    path = write("a.flac 1\nb.flac 0\n\na.flac 1\nb.flac 1\n")
    message = r"list\.txt, line 4: 'a.flac' is already in line 1 \(2 lines repeat an utterance\)"
    with pytest.raises(AsdfError, match=message):
        read_list(path, tmp_path)


@pytest.mark.parametrize("text", ["", "\n  \n"])
def test_an_empty_list(write, tmp_path, text):
    with pytest.raises(AsdfError, match=r"list\.txt: no trials found"):
        read_list(write(text), tmp_path)


def test_a_list_that_does_not_exist_or_no_text(write, tmp_path):
    with pytest.raises(AsdfError, match=r"no list .*none\.txt\. Check paths\.database_folder"):
        read_list(tmp_path / "none.txt", tmp_path)
    with pytest.raises(AsdfError, match=r"list\.txt: this is not UTF-8 text"):
        read_list(write(b"\xff\xfe\x00"), tmp_path)


PROTOCOL = "LA_0079 LA_T_1 - - bonafide\nLA_0080 LA_T_2 - A01 spoof\n"


def test_a_protocol_of_asvspoof_2019(write, tmp_path):
    utterances = read_asvspoof2019_protocol(write(PROTOCOL), tmp_path, "flac", "asvspoof19")
    assert utterances.ids == ["flac/LA_T_1.flac", "flac/LA_T_2.flac"]
    assert utterances.labels.tolist() == [1, 0] and utterances.columns["attack"] == ["-", "A01"]
    assert utterances.columns["speaker"] == ["LA_0079", "LA_0080"]


@pytest.mark.parametrize(
    "line", ["LA_0079 LA_T_3 - A01 fake", "LA_0079 LA_T_3 A01 spoof", "LA_T_3.flac 1"]
)
def test_a_malformed_protocol_line(write, tmp_path, line):
    with pytest.raises(AsdfError, match="line 3: expected 'SPEAKER UTTERANCE ENVIRONMENT ATTACK K"):
        read_asvspoof2019_protocol(write(PROTOCOL + line + "\n"), tmp_path, "flac")
    with pytest.raises(AsdfError, match=r"line 3: 'LA_T_2' is already in line 2"):
        read_asvspoof2019_protocol(write(PROTOCOL + PROTOCOL.splitlines()[1]), tmp_path, "flac")


def test_a_protocol_may_name_no_speaker(write, tmp_path):
    protocol = write("- LA_T_1 - - bonafide\n- LA_T_2 - A01 spoof\n")
    utterances = read_asvspoof2019_protocol(protocol, tmp_path, "flac")
    assert utterances.columns == {"attack": ["-", "A01"]}


def test_a_table_of_trials_is_a_list_with_its_columns(write, tmp_path):
    rows = "utterance\tlabel\tattack\tcodec\na b.flac\t1\t-\topus\nc.flac\t0\tA01\t\n"
    path = write(rows, "trials.tsv")
    utterances = read_list(path, tmp_path, "table")
    assert utterances.ids == ["a b.flac", "c.flac"] and utterances.labels.tolist() == [1, 0]
    assert utterances.labels.dtype == np.int8 and utterances.path(0) == tmp_path / "a b.flac"
    assert utterances.columns == {"attack": ["-", "A01"], "codec": ["opus", ""]}


def test_columns_follow_their_utterances(write, tmp_path):
    table = read_list(
        write("utterance\tlabel\tcodec\na\t1\topus\nb\t0\tgsm\n", "t.tsv"), tmp_path / "t", "t"
    )
    assert table.select(np.array([1])).columns == {"codec": ["gsm"]}
    both = join([read_list(write("c 0\n"), tmp_path, "plain"), table])
    assert both.columns == {"codec": ["", "opus", "gsm"]}  # '' where a list says nothing


def test_the_digest_does_not_depend_on_where_the_recordings_lie(write, tmp_path):
    path = write("a.flac 1\nb.flac 0\n")
    here, there = read_list(path, tmp_path, "x"), read_list(path, Path("/elsewhere"), "y")
    assert here.digest() == there.digest()


def test_missing_files_are_counted_and_named_over_all_lists(write, tmp_path):
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio" / "a.flac").touch()
    first = read_list(write("audio/a.flac 1\naudio/b.flac 0\n"), tmp_path, "one")
    names = [f"nowhere/{i:02d}.flac" for i in range(13)]
    second = read_list(write("".join(f"{name} 1\n" for name in names)), tmp_path, "two")
    check_files([first.select(np.array([0]))])
    with pytest.raises(AsdfError) as caught:
        check_files([first, second])
    text = str(caught.value)
    assert "1 of the 2 files of one are not in" in text
    assert "audio/b.flac" in text and "audio/a.flac" not in text
    assert "13 of the 13 files of two are not in" in text and "... and 3 more" in text
    assert all(name in text for name in names[:10]) and names[10] not in text
    assert "Nothing has been started" in text


@pytest.mark.parametrize(("label", "missing"), [(0, "bona fide"), (1, "spoof")])
def test_a_list_of_one_class(write, tmp_path, label, missing):
    utterances = read_list(write(f"a.flac {label}\nb.flac {label}\n"), tmp_path, "mine")
    message = f"the list mine has 2 utterances, none of them {missing}: an EER needs both"
    with pytest.raises(AsdfError, match=message):
        check_both_classes(utterances, "an EER")


@pytest.mark.parametrize("other", ["a//b.flac", "./a/b.flac", "a/../a/b.flac", "c/.././a/b.flac"])
def test_a_recording_that_is_spelled_in_two_ways_comes_twice(write, tmp_path, other):
    path = write(f"x.flac 0\na/b.flac 1\n{other} 0\n")
    with pytest.raises(AsdfError) as caught:
        read_list(path, tmp_path)
    assert str(caught.value) == (
        f"{path}, line 3: '{other}' is already in line 2 as 'a/b.flac' (1 line repeats an "
        "utterance). Every trial counts once: remove the repeated lines. Some of them have both "
        "labels."
    )


def test_a_table_too_names_a_recording_once(write, tmp_path):
    path = write("utterance\tlabel\na/b.flac\t1\n\n./a/b.flac\t1\n")
    with pytest.raises(AsdfError) as caught:
        read_list(path, tmp_path)
    assert str(caught.value) == (
        f"{path}, line 4: './a/b.flac' is already in line 2 as 'a/b.flac' (1 line repeats an "
        "utterance). Every trial counts once: remove the repeated lines."
    )


def test_a_pipe_as_a_list_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "list.txt")
    with pytest.raises(AsdfError, match=r"list\.txt is not an ordinary file"):
        read_list(tmp_path / "list.txt", tmp_path)


@pytest.mark.parametrize(
    ("links", "listed", "said"),
    [
        ([("b.flac", "a.flac")], ["a.flac", "b.flac"], ["b.flac (as a.flac)"]),
        ([("x/b.flac", "a.flac")], ["x/b.flac", "a.flac"], ["a.flac (as x/b.flac)"]),
        ([], ["a.flac", "A.FLAC"], ["A.FLAC (as a.flac)"]),
        ([], ["x/a.flac", "X/a.flac"], ["X/a.flac (as x/a.flac)"]),
        (
            [("b.flac", "a.flac"), ("c.flac", "a.flac")],
            ["a.flac", "b.flac", "c.flac", "d.flac"],
            ["b.flac (as a.flac)", "c.flac (as a.flac)"],
        ),
        ([], ["a.flac", "b.flac", "x/a.flac"], []),
        ([], ["a.flac#t=0,1", "a.flac#t=1,2"], []),
        ([("b.flac", "a.flac")], ["b.flac", "c.flac"], []),
    ],
)
def test_two_names_of_one_recording_are_said_once(tmp_path, caplog, links, listed, said):
    """Links in one folder and another, both cases, three names; parts and copies are none."""
    for name in [*listed, *(target for _, target in links)]:
        path = tmp_path / name.partition("#")[0]
        path.parent.mkdir(exist_ok=True)
        if not path.exists() and name not in dict(links):
            soundfile.write(path, np.full(40_000, 0.1), 16000)
    for name, target in links:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).hardlink_to(tmp_path / target)
    trials = TrialList(listed, np.arange(len(listed)) % 2, name="dev", folder=tmp_path)
    words = "recordings of dev seem to be listed under two names"
    check_files([trials])
    log = caplog.text
    assert log.count(words) == bool(said) and all(one in log for one in said)
    assert (f"{len(said)} {words}" in log) == bool(said)
    caplog.clear()
    (tmp_path / "l.txt").write_text("".join(f"{name} 1\n" for name in listed))
    assert main(["score", "small", str(tmp_path / "l.txt"), "--device", "cpu"]) == 0
    assert caplog.text.count("seem to be listed under two names") == bool(said)
