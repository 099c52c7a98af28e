"""Lists of trials: what is selected, joined and packed keeps its recordings, labels and columns."""

import numpy as np
import pytest

from asdf.trials.trial_list import TrialList, bare_name, join


def test_labels_are_int8_whatever_they_were_made_from():
    for labels in ([1, 0], np.array([1, 0]), np.array([True, False])):
        trials = TrialList(["a", "b"], labels)
        assert trials.labels.dtype == np.int8 and trials.labels.tolist() == [1, 0]


def test_lists_of_unlike_lengths_are_a_bug():
    with pytest.raises(ValueError, match="same length"):
        TrialList(["a"], np.array([1, 0]))
    with pytest.raises(ValueError, match="'codec': 2"):
        TrialList(["a"], np.array([1]), columns={"codec": ["opus", "gsm"]})


def test_a_packed_list_names_the_same_recordings(tmp_path):
    columns = {"speaker": ["x", "y"]}
    first = TrialList(["a", "b"], [1, 0], name="one", folder=tmp_path / "1", columns=columns)
    second = TrialList(["c"], [1], name="two", folder=tmp_path / "2")
    for whole in (first, join([first, second]), join([first, second]).select(np.array([2, 0]))):
        packed = whole.packed()
        assert list(map(packed.path, range(len(packed)))) == list(
            map(whole.path, range(len(whole)))
        )
        assert packed.ids == whole.ids and packed.labels is whole.labels


def test_joined_lists_can_be_joined(tmp_path):
    names = ("a", "b:c")
    first, second = (TrialList(["a.wav"], [0], name=n, folder=tmp_path / n) for n in names)
    both = join([join([first, second]), first])
    assert both.ids == ["a+b:c:a:a.wav", "a+b:c:b:c:a.wav", "a:a.wav"]
    assert [both.path(i) for i in range(3)] == [tmp_path / n / "a.wav" for n in (*names, "a")]


def test_joined_lists_keep_their_files_apart(tmp_path):
    first = TrialList(["a.flac", "b.flac"], [1, 0], name="one", folder=tmp_path / "one")
    second = TrialList(["a.flac"], [0], name="two", folder=tmp_path / "two")
    both = join([first, second])
    assert both.ids == ["one:a.flac", "one:b.flac", "two:a.flac"]
    assert both.labels.tolist() == [1, 0, 0]
    assert [both.path(i) for i in (0, 2)] == [tmp_path / name / "a.flac" for name in ("one", "two")]
    some = both.select(np.array([2, 0]))
    assert some.ids == ["two:a.flac", "one:a.flac"] and some.path(0) == tmp_path / "two" / "a.flac"
    assert some.labels.tolist() == [0, 1] and some.digest() != both.digest()


@pytest.mark.parametrize(
    ("utterance", "name"),
    [
        ("flac/LA_0001.flac", "LA_0001"),
        ("LA_0001", "LA_0001"),
        ("a/b c.WAV", "b c"),
        ("a/speech.v2", "speech.v2"),
        ("file1.wav_16k.wav", "file1.wav_16k"),
    ],
)
def test_only_suffixes_of_recordings_are_no_part_of_a_name(utterance, name):
    assert bare_name(utterance) == name


def test_a_trial_is_found_by_its_id_or_its_bare_name():
    trials = TrialList(["flac/a.flac", "flac/b.flac", "x/c.wav", "y/c.wav"], np.array([1, 0, 1, 0]))
    assert [trials.index_of(name) for name in ("flac/b.flac", "b", "elsewhere/b.wav")] == [1, 1, 1]
    names = ("x/c.wav", "y/c.wav", "c", "d")
    assert list(map(trials.index_of, names)) == [2, 3, None, None]


def test_a_bare_name_that_is_the_id_of_another_trial_means_that_one():
    assert TrialList(["a.wav", "a"], np.array([1, 0])).index_of("a") == 1


def test_a_trial_is_found_in_any_spelling_of_its_path():
    """Two trials share the bare name, so it is the path that tells them apart."""
    trials = TrialList(["x/a.flac", "./y/a.flac"], np.array([1, 0], np.int8))
    spellings = ["x/a.flac", "./x//a.flac", "y/a.flac", "y/z/../a.flac", "a.flac", "./z/a.flac"]
    assert list(map(trials.index_of, spellings)) == [0, 0, 1, 1, None, None]
