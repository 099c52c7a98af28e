"""Folders of Kaldi and WeDefense: wav.scp with utt2lab."""

from __future__ import annotations

import pytest

from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import Corpus
from asdf.trials.lists import check_files, open_tree


def test_paths_in_the_folder_and_outside_of_it(lay, read, tmp_path):
    outside = lay(empty="LA_T_2.flac\nx y.flac", folder="audio")
    files = {
        "train/wav.scp": f"LA_T_1 {tmp_path}/data/wavs/LA_T_1.flac\nLA_T_2 {outside}/LA_T_2.flac\n"
        f"LA_T_3 {outside}/x y.flac\nLA_T_4 wavs/LA_T_4.flac\n",
        "train/utt2lab": "LA_T_1 bonafide\nLA_T_2 spoof\nLA_T_3 spoof\n",
        "train/utt2spk": "LA_T_1 LA_0079\nLA_T_2 LA_0080\n",
    }
    root = lay(files, "wavs/LA_T_1.flac\nwavs/LA_T_4.flac", folder="data")
    trials, reading = read("kaldi:train", root)
    assert trials.ids == ["wavs/LA_T_1.flac", f"{outside}/LA_T_2.flac", f"{outside}/x y.flac"]
    assert trials.labels.tolist() == [1, 0, 0]
    assert trials.columns == {
        "utterance_id": ["LA_T_1", "LA_T_2", "LA_T_3"],
        "speaker": ["LA_0079", "LA_0080", ""],
    }
    assert list(reading.notes) == ["utterances of wav.scp without a label, left out: 1"]
    check_files([trials])
    assert compare_with_disk(reading, open_tree(root)) == OnDisk([], [])
    mine = Corpus(reader="kaldi:train", folder="data").read("mine", tmp_path)
    assert mine.ids == trials.ids and mine.index_of("LA_T_2") == 1


@pytest.mark.parametrize(
    ("scp", "labels", "message"),
    [
        ("a flac -c -d a.flac |\n", "a spoof\n", "line 1: 'flac -c -d a.flac |' is a command"),
        ("a\n", "a spoof\n", "wav.scp, line 1: expected 'UTTERANCE VALUE', found 'a'."),
        ("a x\na y\n", "a spoof\n", "wav.scp, line 2: a is in the file twice: remove one"),
        ("a x\n", "b spoof\n", "utt2lab: b is not in wav.scp."),
        ("a x\n", "a A07\n", "the label 'A07' of a means neither bona fide nor spoof."),
        ("a x\nb ./x\n", "a spoof\nb spoof\n", "line 2: './x' is already in line 1"),
    ],
)
def test_what_does_not_fit(lay, read, scp, labels, message):
    root = lay({"wav.scp": scp, "utt2lab": labels})
    with pytest.raises(AsdfError) as caught:
        read("kaldi", root)
    assert message in str(caught.value)


def test_a_folder_without_labels(lay, read):
    root = lay({"wav.scp": "a x\n"})
    with pytest.raises(AsdfError, match=r"there is no file .*utt2lab"):
        read("kaldi", root)
