"""LlamaPartialSpoof: labels and segments next to the folders of its two parts."""

from __future__ import annotations

import pytest

from asdf.corpora import KNOWN
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError
from asdf.segments import COLUMN
from asdf.trials.lists import open_tree

BONA_FIDE = "dev-clean_1462_170145_000020_000002"
FULL = "dev01-gpt-sovits-full_3000_15664_000010_000001"
PARTIAL = "dev01-yourtts-partial-cf_8842_304647_000034_000001"
PASTED = "dev01-yourtts-partial-cp_8842_304647_000034_000001"
LABELS_A = f"""\
{BONA_FIDE} 0.9600 bonafide 0.0000-0.9600-bonafide
{FULL} 10.9930 spoof 0.0000-10.9930-spoof
{PARTIAL} 1.9740 spoof 0.0000-0.8510-bonafide 0.8510-1.1910-spoof 1.1910-1.9740-bonafide
"""
LABELS_B = f"{PASTED} 1.5 spoof 0.0000-0.5-bonafide 0.5-1.5-spoof\n"
FILES = {"label_R01TTS.0.a.txt": LABELS_A, "label_R01TTS.0.b.txt": LABELS_B}
AUDIO = f"R01TTS.0.a/{BONA_FIDE}.wav\nR01TTS.0.a/{FULL}.wav\nR01TTS.0.a/{PARTIAL}.wav"


def test_the_first_part(lay, read):
    trials, reading = read("llama-partial-spoof:a", lay(FILES, AUDIO))
    assert list(trials.ids) == AUDIO.split("\n")
    assert trials.labels.tolist() == [1, 0, 0]
    assert trials.columns == {
        "speaker": ["1462", "3000", "8842"],
        "attack": ["-", "gpt-sovits", "yourtts"],
        "kind": ["-", "full", "partial"],
        "joint": ["-", "-", "cf"],
        COLUMN: ["-", "0-10.993", "0.851-1.191"],
    }
    assert not reading.notes


@pytest.mark.parametrize(("subset", "spoof"), [("full", FULL), ("partial", PARTIAL)])
def test_bona_fide_with_the_spoofs_of_one_kind(lay, read, subset, spoof):
    root = lay(FILES, AUDIO)
    trials, reading = read(f"llama-partial-spoof:{subset}", root)
    assert [name.split("/")[1] for name in trials.ids] == [f"{BONA_FIDE}.wav", f"{spoof}.wav"]
    # What the label file has besides is no recording that it does not name.
    assert not compare_with_disk(reading, open_tree(root))[1]


def test_the_second_part_is_all_spoof(lay, read):
    root = lay(FILES, f"R01TTS.0.b/{PASTED}.wav", folder="LlamaPartialSpoof")
    trials, _ = read("llama-partial-spoof:b", root.parent)
    assert trials.labels.tolist() == [0]
    assert trials.columns["joint"] == ["cp"] and trials.columns[COLUMN] == ["0.5-1.5"]
    assert list(trials.ids) == [f"LlamaPartialSpoof/R01TTS.0.b/{PASTED}.wav"]


def test_a_missing_label_file_is_named(lay, read):
    with pytest.raises(AsdfError, match=r"no label_R01TTS\.0\.b\.txt"):
        read("llama-partial-spoof:b", lay({"label_R01TTS.0.a.txt": LABELS_A}))


def test_the_published_numbers_add_up():
    published = KNOWN["llama-partial-spoof"].published
    full, partial, a = (published[name] for name in ("full", "partial", "a"))
    assert (full.spoof or 0) + (partial.spoof or 0) == a.spoof
    # R01TTS.0.b has every partially spoofed recording of a in two other ways of joining.
    assert published["b"].trials == 2 * (partial.spoof or 0)
