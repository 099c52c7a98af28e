"""AT-ADD, ESDD2, and sets of the Arena as their makers distribute them, on small trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from asdf.corpora import choose, compare_with_disk, differences, find_tree, read_known
from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import set_parts
from asdf.trials.trial_list import TrialList

ESDD2 = """audio_path,label,speech_path,env_path
development/mix/1.wav,original,-,-
development/mix/2.wav,bonafide_bonafide,a.wav,b.wav
development/mix/3.wav,bonafide_spoof,a.wav,b.wav
development/mix/4.wav,spoof_bonafide,a.wav,b.wav
development/mix/5.wav,spoof_spoof,a.wav,b.wav
development/mix/6.wav,-,-,-
"""

FOLDERS = {
    "pyara": (
        ["PyAra/Real/real_1.wav", "PyAra/Fake/alg_1_0.wav", "PyAra/Fake/alg_5_3.wav"],
        {"Real/real_1.wav": 1, "Fake/alg_1_0.wav": 0, "Fake/alg_5_3.wav": 0},
        {"attack": ["alg_1", "alg_5", "-"]},
    ),
    "xmad": (
        ["XMAD/de/masc/real/1.wav", "XMAD/de/masc/fake/1.wav"],
        {"de/masc/fake/1.wav": 0, "de/masc/real/1.wav": 1},
        {"language": ["de", "de"], "source": ["masc", "masc"]},
    ),
    "cvoicefake": (
        ["CVoiceFake_small/de/Bonafide/1.mp3", "CVoiceFake_small/de/world_generated/1.mp3"],
        {"de/Bonafide/1.mp3": 1, "de/world_generated/1.mp3": 0},
        {"attack": ["-", "world_generated"], "language": ["de", "de"]},
    ),
    "deep-voice": (
        ["DEEP-VOICE/KAGGLE/AUDIO/REAL/obama.wav", "DEEP-VOICE/KAGGLE/AUDIO/FAKE/a-to-b.wav"],
        {"KAGGLE/AUDIO/FAKE/a-to-b.wav": 0, "KAGGLE/AUDIO/REAL/obama.wav": 1},
        {},
    ),
    "ljspeech": (
        ["LJSpeech-1.1/wavs/LJ001-0001.wav", "LJSpeech-1.1/metadata.csv"],
        {"wavs/LJ001-0001.wav": 1},
        {"speaker": ["LJ"], "language": ["en"]},
    ),
}


def lay(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def read(folder: Path, name: str) -> TrialList:
    chosen = choose(name)
    tree = find_tree(chosen.corpus, folder)
    trials, reading = read_known(chosen, tree)
    disk = compare_with_disk(reading, tree)
    assert (disk.missing, disk.unnamed) == ([], [])
    return trials


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_say_the_class(tmp_path, name):
    names, labels, columns = FOLDERS[name]
    lay(tmp_path, *names)
    trials = read(tmp_path, name)
    assert dict(zip(trials.ids, trials.labels.tolist(), strict=True)) == labels
    assert {key: trials.columns[key] for key in columns} == columns


def test_at_add(tmp_path):
    for track, header, end in (("T1", "name,label", ""), ("T2", "name,type,label", "music,")):
        folder = tmp_path / "atadd" / track
        lay(folder, "train/a.wav", "train/b.wav", "label/x")
        rows = f"a.wav,{end}real\nb.wav,{end}fake\n"
        (folder / "label/train.csv").write_text(f"\ufeff{header}\n{rows}", encoding="utf-8")
    trials = read(tmp_path, "at-add-track1:train")
    assert (trials.ids, trials.labels.tolist()) == (["T1/train/a.wav", "T1/train/b.wav"], [1, 0])
    trials = read(tmp_path, "at-add-track2:train")
    assert trials.columns == {"type": ["music", "music"]}
    with pytest.raises(AsdfError, match=r"no T1/label/eval.csv.*where it is published"):
        read(tmp_path, "at-add-track1:eval")


def test_esdd2_has_the_labels_of_components_as_columns(tmp_path):
    lay(tmp_path / "CompSpoofV2", *(f"development/mix/{number}.wav" for number in range(1, 7)))
    path = tmp_path / "CompSpoofV2/development/metadata/train.csv"
    path.parent.mkdir()
    path.write_text(ESDD2)
    trials = read(tmp_path, "esdd2:train")
    assert trials.labels.tolist() == [1, 1, 0, 0, 0]
    assert trials.columns["component"][3] == "spoof_bonafide"
    assert trials.columns["speech"] == ["bonafide", "bonafide", "bonafide", "spoof", "spoof"]
    assert trials.columns["environment"] == ["bonafide", "bonafide", "spoof", "bonafide", "spoof"]
    path.write_text(ESDD2.replace("original", "mixed"))
    with pytest.raises(AsdfError, match="line 2: 'mixed' means neither bona fide nor"):
        read(tmp_path, "esdd2:train")
    path.write_text("path,class\na.wav,original\n")
    with pytest.raises(AsdfError, match="line 1: it has no column audio_path, label"):
        read(tmp_path, "esdd2:train")


def test_wavefake_and_ljspeech_are_a_set(tmp_path):
    assert set_parts("wavefake+ljspeech", {}) == ["wavefake", "ljspeech"]
    lay(tmp_path, "LJSpeech-1.1/wavs/LJ001-0001.wav")
    assert differences(choose("ljspeech"), read(tmp_path, "ljspeech").labels) == [
        "ljspeech has 1 trials, published 13,100: 13,099 bona fide missing"
    ]
