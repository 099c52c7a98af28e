"""Corpora with label files, on trees laid out as they are distributed."""

from __future__ import annotations

from pathlib import Path

import pytest

from asdf.corpora import KNOWN, choose, find_tree
from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files
from tests.unit.corpora.conftest import Lay, Read

ADD22 = "ADD_T_00000000.wav genuine\nADD_T_00000001.wav fake\n"
TRACK1 = "ADD_E1_00000000.wav fake\nADD_E1_00000001.wav genuine\n"
ADD23 = "ADD2023_T1.2R2_E_00000003.wav genuine\nADD2023_T1.2R2_E_00000004.wav fake\n"
TRACK3 = "ADD2023_T3_E_1.wav 0\nADD2023_T3_E_2.wav 7\n"
CODECFAKE = "SSB13650058.wav real 0\nF01_SSB13650058.wav fake 1\nF07_SSB13650058.wav fake 7\n"
DECRO = "unknown 20032123 - baidu spoof\nG0019 T0055G0019S0420 - aidatatang bonafide\n"
CTRSVDD = (
    "m4singer CtrSVDD_0110 CtrSVDD_0110_D_0015416 - - bonafide\n"
    "jvsmusic CtrSVDD_0097 CtrSVDD_0097_D_0010993 - A06 deepfake\n"
)
DIFFSSD = """filename,method_name,target,set
generated_speech/your_tts/speaker_1487/sentence_449.wav,your_tts,1,test
generated_speech/grad_tts/speaker_1487/sentence_449.wav,grad_tts,1,train
real_speech/librispeech/dev-clean/84/121123/84-121123-0000.flac,librispeech,0,test
real_speech/ljspeech/LJ001-0001.wav,ljspeech,0,test
"""
DEEPFAKE_EVAL = """Filename,Language,Ground Truth,Finetuning Set
1.mp3,en,Fake,Train
2.m4a,en,Real,Test
3.wav,de,Fake,Test
4.dat,de,Unknown,Test
"""

CASES = {
    "add22:train": (
        {"ADD_train_dev/label/train_label.txt": ADD22},
        ["ADD_train_dev/train/ADD_T_00000000.wav", "ADD_train_dev/train/ADD_T_00000001.wav"],
        [1, 0],
        {},
    ),
    "add22:track1": (
        {"eval_track1/label.txt": TRACK1},
        ["track1test/ADD_E1_00000000.wav", "track1test/ADD_E1_00000001.wav"],
        [0, 1],
        {},
    ),
    "add22:track3-r2": (
        {"ADD2022track3.2_eval_R2/track3_R2_label.txt": TRACK1},
        [
            "ADD2022track3.2_eval_R2/wav/ADD_E1_00000000.wav",
            "ADD2022track3.2_eval_R2/wav/ADD_E1_00000001.wav",
        ],
        [0, 1],
        {},
    ),
    "add23:test-r2": (
        {"Track1.2/testR2/label.txt": ADD23},
        [
            "Track1.2/testR2/wav/ADD2023_T1.2R2_E_00000003.wav",
            "Track1.2/testR2/wav/ADD2023_T1.2R2_E_00000004.wav",
        ],
        [1, 0],
        {},
    ),
    "add23-track3:test": (
        {"test/label.txt": TRACK3},
        ["test/wav/ADD2023_T3_E_1.wav", "test/wav/ADD2023_T3_E_2.wav"],
        [1, 0],
        {"attack": ["-", "algorithm-7"]},
    ),
    "codecfake-xie:train": (
        {"label/train.txt": CODECFAKE},
        ["train/SSB13650058.wav", "train/F01_SSB13650058.wav", "train/F07_SSB13650058.wav"],
        [1, 0, 0],
        {"attack": ["-", "F01", "F07"]},
    ),
    "codecfake-xie:C7": (
        {"label/C7.txt": CODECFAKE},
        ["test/C7/SSB13650058.wav", "test/C7/F01_SSB13650058.wav", "test/C7/F07_SSB13650058.wav"],
        [1, 0, 0],
        {"attack": ["-", "F01", "F07"]},
    ),
    "decro:ch_dev": (
        {"petrichorwq-DECRO-dataset-6fc9884/ch_dev.txt": DECRO},
        [
            "petrichorwq-DECRO-dataset-6fc9884/ch_dev/20032123.wav",
            "petrichorwq-DECRO-dataset-6fc9884/ch_dev/T0055G0019S0420.wav",
        ],
        [0, 1],
        {"speaker": ["unknown", "G0019"], "attack": ["baidu", "-"]},
    ),
    "ctrsvdd:dev": (
        {"dev.txt": CTRSVDD},
        ["dev_set/CtrSVDD_0110_D_0015416.flac", "dev_set/CtrSVDD_0097_D_0010993.flac"],
        [1, 0],
        {
            "source": ["m4singer", "jvsmusic"],
            "speaker": ["CtrSVDD_0110", "CtrSVDD_0097"],
            "attack": ["-", "A06"],
        },
    ),
    "diffssd:test": (
        {"train_val_test_splits.csv": DIFFSSD},
        [
            "generated_speech/your_tts/speaker_1487/sentence_449.wav",
            "real_speech/LibriSpeech/dev-clean/84/121123/84-121123-0000.flac",
            "real_speech/LJSpeech-1.1/wavs/LJ001-0001.wav",
        ],
        [0, 1, 1],
        {"attack": ["your_tts", "-", "-"], "subset": ["test", "test", "test"]},
    ),
    "deepfake-eval-2024:test": (
        {"audio-metadata-publish.csv": DEEPFAKE_EVAL},
        ["audio-data/2.m4a", "audio-data/3.wav"],
        [1, 0],
        {"subset": ["Test", "Test"]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_lines_are_labels_and_columns(lay: Lay, read: Read, name: str) -> None:
    files, audio, labels, columns = CASES[name]
    folder = KNOWN[name.split(":")[0]].folders[0]
    base = lay(files, "\n".join(audio), folder=folder).parent
    tree = find_tree(choose(name).corpus, base)
    assert tree.root == base / folder
    utterances, reading = read(name, tree.root)
    assert utterances.ids == audio and utterances.labels.tolist() == labels
    assert utterances.columns == columns
    check_files([utterances])
    assert compare_with_disk(reading, tree).missing == []


def test_recordings_of_several_methods_with_one_file_name(lay: Lay, read: Read) -> None:
    root = lay(
        {"train_val_test_splits.csv": DIFFSSD},
        "generated_speech/your_tts/speaker_1487/sentence_449.wav\n"
        "generated_speech/grad_tts/speaker_1487/sentence_449.wav",
    )
    train, _ = read("diffssd:train", root)
    assert train.ids == ["generated_speech/grad_tts/speaker_1487/sentence_449.wav"]


def test_lines_of_neither_class_and_other_suffixes(lay: Lay, read: Read) -> None:
    """A suffix on the disk may be another one than in the table."""
    root = lay({"audio-metadata-publish.csv": DEEPFAKE_EVAL}, "audio-data/2.mp4\naudio-data/3.wav")
    utterances, reading = read("deepfake-eval-2024:test", root)
    assert utterances.ids == ["audio-data/2.mp4", "audio-data/3.wav"]
    assert list(reading.notes) == ["lines of neither class, left out: 1, such as 4.dat"]
    everything, _ = read("deepfake-eval-2024:all", root)
    assert len(everything) == 3


def test_recordings_that_are_missing_are_named_where_the_distribution_has_them(
    lay: Lay, read: Read
) -> None:
    root = lay({"dev.txt": CTRSVDD})
    utterances, _ = read("ctrsvdd:dev", root)
    assert utterances.ids[0] == "dev_set/CtrSVDD_0110_D_0015416.flac"
    with pytest.raises(AsdfError, match="2 of the 2 files of ctrsvdd:dev are not in"):
        check_files([utterances])


@pytest.mark.parametrize(
    ("name", "file", "text", "message"),
    [
        ("decro:en_dev", "en_dev.txt", "a b c\n", "line 1: expected 'SPEAKER UTTERANCE - ATTACK K"),
        ("decro:en_dev", "en_dev.txt", "a b - c fale\n", "line 1: 'fale' means neither bona fide"),
        ("ctrsvdd:dev", "test.txt", CTRSVDD, "there is no dev.txt. It comes next to th"),
        (
            "diffssd:test",
            "train_val_test_splits.csv",
            "filename,method_name,set\n",
            "line 1: it has no column label, target, but filename, method_name, set",
        ),
        (
            "deepfake-eval-2024:test",
            "audio-metadata-publish.csv",
            "Filename,Ground Truth,Finetuning Set\n1.mp3,Fake\n",
            "line 2: it has 2 columns, fewer than the header",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    lay: Lay, read: Read, name: str, file: str, text: str, message: str
) -> None:
    root = lay({file: text})
    with pytest.raises(AsdfError) as caught:
        read(name, root)
    assert message in str(caught.value)


PA19 = "PA_0079 PA_T_0000001 aaa - bonafide\nPA_0079 PA_T_0005401 aaa AA spoof\n"
PA21 = """PA_0010 PA_E_1000001 R3 M3 d4 r1 m1 s4 c4 spoof notrim eval
PA_0011 PA_E_1000002 R1 M1 D2 - - - - bonafide notrim eval
PA_0011 PA_E_1000003 R1 M1 D2 - - - - bonafide trim hidden
"""


def test_asvspoof_2019_pa(lay: Lay, read: Read) -> None:
    flac = "PA/ASVspoof2019_PA_train/flac"
    protocol = "PA/ASVspoof2019_PA_cm_protocols/ASVspoof2019.PA.cm.train.trn.txt"
    root = lay({protocol: PA19}, f"{flac}/PA_T_0000001.flac\n{flac}/PA_T_0005401.flac")
    utterances, _ = read("asvspoof19-pa:train", root)
    assert utterances.ids == [f"{flac}/PA_T_0000001.flac", f"{flac}/PA_T_0005401.flac"]
    assert utterances.columns == {
        "speaker": ["PA_0079", "PA_0079"],
        "environment": ["aaa", "aaa"],
        "attack": ["-", "AA"],
    }
    check_files([utterances])


def test_asvspoof_2021_pa_in_its_seven_parts(lay: Lay, read: Read, tmp_path: Path) -> None:
    inner = "ASVspoof2021_PA_eval/flac"
    root = lay(
        {"PA-keys-full/keys/PA/CM/trial_metadata.txt": PA21},
        f"ASVspoof2021_PA_eval_part00/{inner}/PA_E_1000001.flac\n"
        f"ASVspoof2021_PA_eval_part06/{inner}/PA_E_1000002.flac\n"
        f"ASVspoof2021_PA_eval_part06/{inner}/PA_E_1000003.flac",
    )
    assert find_tree(choose("asvspoof21-pa:eval").corpus, tmp_path).root == root
    utterances, reading = read("asvspoof21-pa:eval", root)
    assert [name.split("/")[0][-2:] for name in utterances.ids] == ["00", "06"]
    assert utterances.labels.tolist() == [0, 1] and len(reading.others) == 1
    assert utterances.columns["asv_room"] == ["R3", "R1"]
    assert utterances.columns["replay_device"] == ["s4", "-"]
    assert utterances.columns["to_talker"] == ["c4", "-"]
    assert utterances.columns["subset"] == ["eval", "eval"]
    check_files([utterances])
    assert compare_with_disk(reading, find_tree(choose("asvspoof21-pa:eval").corpus, root)) == (
        OnDisk([], [])
    )
