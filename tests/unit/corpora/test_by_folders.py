"""Corpora whose folders say everything, on trees laid out as they are distributed."""

from __future__ import annotations

from pathlib import Path

import pytest

from asdf.corpora import KNOWN, choose, find_tree
from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import Lay, Read, move_into_tar

CFAD = """CFAD/clean_version/train_clean/real_clean/aishell1/BAC009S0002W0122.wav
CFAD/clean_version/train_clean/fake_clean/gl/SSB00050001_gl.wav
CFAD/clean_version/test_seen_clean/fake_clean/gl/SSB07800001_gl.wav
CFAD/noisy_version/dev_noise/real_noise/thchs30/a.wav
CFAD/codec_version/test_seen_codec/fake_codec/lpcnet/SSB09660003_lpcnet_m4a.wav"""
DFADD = """DATASET_VCTK_BONAFIDE/train/p225_001_mic1.flac
DATASET_PflowTTS/train/p345_251_pflow.wav
DATASET_VCTK_BONAFIDE/test/p226_001_mic1.flac
DATASET_MatchaTTS/test/p226_002.wav"""
ODSS = """odss/natural/vctk/p234/p234_344.wav
odss/vits/hui/Hokuspokus/a.wav
odss/fastpitch-hifigan/vctk/p234/b.wav"""
HABLA = """FinalDataset_16khz/Real/Chile/clf_07508/clf_07508_00799857148.wav
FinalDataset_16khz/CycleGAN/Venezuela-Argentina/vem_02484-arm_01523/CycleGAN-vem-arm.wav
FinalDataset_16khz/TTS/Peru/TTS-pef_1_2.wav"""
LIBRISEVOC = """LibriSeVoc/gt/27_123349_000006_000000.wav
LibriSeVoc/parallel_wave_gan/3526_176653_000073_000002_gen.wav"""
SONAR = """SONAR_dataset/real_samples/1.wav
SONAR_dataset/VALLE/2.wav
SONAR_dataset/AudioGen/3.wav"""
CODECFAKE_WU = "processed/encodec_24khz+p272_103.wav\nprocessed/dac_16k+s5_001.wav"
FAKEAVCELEB = """FakeAVCeleb/RealVideo-RealAudio/African/men/id00076/00109.mp4
FakeAVCeleb/RealVideo-FakeAudio/African/men/id00076/00109_fake.mp4
FakeAVCeleb/FakeVideo-RealAudio/Asian (East)/women/id1/x.mp4
FakeAVCeleb/FakeVideo-FakeAudio/Asian (East)/women/id1/y.mp4"""


COLUMNS = {
    "cfad:clean-train": {
        "version": "clean clean",
        "part": "train train",
        "attack": "gl -",
        "source": " aishell1",
    },
    "cfad:clean-test_seen": {"version": "clean", "part": "test_seen", "attack": "gl", "source": ""},
    "cfad:noisy-dev": {"version": "noisy", "part": "dev", "attack": "-", "source": "thchs30"},
    "cfad:codec-test_seen": {
        "version": "codec",
        "part": "test_seen",
        "attack": "lpcnet",
        "source": "",
    },
    "dfadd:train": {"attack": "PflowTTS -", "subset": "train train", "speaker": "p345 p225"},
    "dfadd:test": {"attack": "MatchaTTS -", "subset": "test test", "speaker": "p226 p226"},
    "odss": {
        "attack": "fastpitch-hifigan - vits",
        "source": "vctk vctk hui",
        "speaker": "p234 p234 Hokuspokus",
    },
    "habla": {
        "attack": "CycleGAN - TTS",
        "accent": "Venezuela-Argentina Chile Peru",
        "speaker": "vem_02484-arm_01523 clf_07508 ",
        "language": "es es es",
    },
    "librisevoc": {"attack": "- parallel_wave_gan", "speaker": "27 3526", "language": "en en"},
    "sonar": {"attack": "AudioGen VALLE -"},
    "codecfake-wu": {"attack": "dac_16k encodec_24khz", "speaker": "s5 p272", "language": "en en"},
    "fakeavceleb:real-video": {
        "video": "Real Real",
        "race": "African African",
        "gender": "men men",
        "speaker": "id00076 id00076",
    },
}
FILES = {
    "cfad": CFAD,
    "dfadd": DFADD,
    "odss": ODSS,
    "habla": HABLA,
    "librisevoc": LIBRISEVOC,
    "sonar": SONAR,
    "codecfake-wu": CODECFAKE_WU,
    "fakeavceleb": FAKEAVCELEB,
}
LABELS = {
    "cfad:clean-train": [0, 1],
    "cfad:clean-test_seen": [0],
    "cfad:noisy-dev": [1],
    "cfad:codec-test_seen": [0],
    "dfadd:train": [0, 1],
    "dfadd:test": [0, 1],
    "odss": [0, 1, 0],
    "habla": [0, 1, 0],
    "librisevoc": [1, 0],
    "sonar": [0, 0, 1],
    "codecfake-wu": [0, 0],
    "fakeavceleb:real-video": [0, 1],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_folders_are_labels_and_columns(lay: Lay, read: Read, name: str) -> None:
    key = name.split(":")[0]
    folder = KNOWN[key].folders[0]
    base = lay(empty=FILES[key], folder=folder).parent
    tree = find_tree(choose(name).corpus, base)
    assert tree.root == base / folder
    # The path of its own folder instead of the one around it.
    assert find_tree(choose(name).corpus, base / folder, itself=True).root == base / folder
    utterances, reading = read(name, tree.root)
    assert utterances.labels.tolist() == LABELS[name]
    columns = {column: values.split(" ") for column, values in COLUMNS[name].items()}
    assert utterances.columns == columns
    check_files([utterances])
    assert compare_with_disk(reading, tree) == OnDisk([], [])


def test_the_sound_of_all_videos_and_sound_next_to_its_video(lay: Lay, read: Read) -> None:
    root = lay(empty=FAKEAVCELEB)
    everything, _ = read("fakeavceleb", root)
    assert everything.columns["video"] == ["Fake", "Fake", "Real", "Real"]
    assert everything.labels.tolist() == [0, 1, 0, 1]
    sound = "FakeAVCeleb/RealVideo-RealAudio/African/men/id00076/00109.wav"
    lay(empty=sound)
    again, _ = read("fakeavceleb", root)
    assert len(again) == 4 and sound in again.ids


def test_a_corpus_in_a_tar(lay: Lay, read: Read, tmp_path: Path) -> None:
    folder = lay(empty=DFADD, folder="DFADD")
    unpacked, _ = read("dfadd:train", folder)
    move_into_tar(folder, tmp_path / "DFADD.tar", "DFADD")
    packed, reading = read("dfadd:train", tmp_path / "DFADD")
    assert packed.ids == unpacked.ids
    assert compare_with_disk(reading, open_tree(tmp_path / "DFADD")) == OnDisk([], [])


def test_what_does_not_fit_is_left_out_with_a_note(lay: Lay, read: Read) -> None:
    root = lay(empty=f"{LIBRISEVOC}\nLibriSeVoc/hifigan/27_1_2_3.wav")
    utterances, reading = read("librisevoc", root)
    assert len(utterances) == 2
    assert list(reading.notes) == [
        "recordings outside the corpus's layout, left out: 1, such as "
        "LibriSeVoc/hifigan/27_1_2_3.wav"
    ]


def test_no_recording_where_the_corpus_has_them(lay: Lay, read: Read) -> None:
    root = lay(empty="CFAD/clean_version/train_clean/x.wav")
    with pytest.raises(AsdfError) as caught:
        read("cfad:clean-dev", root)
    assert str(caught.value) == (
        f"{root}: no recordings of subset 'clean-dev' found in the corpus's layout; recordings "
        "elsewhere: 1, such as CFAD/clean_version/train_clean/x.wav. Was it unpacked completely, "
        "without moving its folders?"
    )
