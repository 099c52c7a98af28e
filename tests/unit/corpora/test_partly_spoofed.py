"""Corpora of partly spoofed recordings: segments as RTTM, as arrays of labels or as text."""

import numpy as np
import pytest

from asdf.corpora import KNOWN, find_tree
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError
from asdf.segments import COLUMN, Segment, spoofed_parts, spoofed_parts_of
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar

PROTOCOL = """\
LA_0069 CON_D_0000000 - CON spoof
LA_0069 CON_D_0000001 - CON spoof
LA_0069 LA_D_1000265 - - bonafide
"""
RTTM = """\
SPEAKER CON_D_0000000 1 0.0 0.53 <NA> <NA> bonafide <NA> <NA>
SPEAKER CON_D_0000000 1 0.53 0.25 <NA> <NA> spoof <NA> <NA>
SPEAKER CON_D_0000001 1 0.0 1.25 <NA> <NA> spoof <NA> <NA>
SPEAKER LA_D_1000265 1 0.0 1.0 <NA> <NA> bonafide <NA> <NA>
"""
FILE = "protocols/PartialSpoof_LA_cm_protocols/PartialSpoof.LA.cm.dev.trl.txt"
RECORDINGS = [*("CON_D_0000000.wav", "CON_D_0000001.wav", "LA_D_1000265.wav"), "._LA_D_1000265.wav"]


def audio(home: str) -> str:
    return "\n".join(f"{home}dev/con_wav/{name}" for name in RECORDINGS)


@pytest.mark.parametrize("home", ["", "database/"])
def test_segments_of_the_rttm_come_first(lay, read, home):
    files = {home + FILE: PROTOCOL, f"{home}dev/con_data/rttm_2cls_0sil": RTTM}
    root = lay(files, audio(home))
    (root / home / "segment_labels").mkdir()
    trials, reading = read("partial-spoof:dev", root)
    assert list(trials.ids) == [f"{home}dev/con_wav/{name}" for name in RECORDINGS[:3]]
    assert trials.labels.tolist() == [0, 0, 1]
    assert trials.columns == {
        "speaker": ["LA_0069"] * 3,
        "attack": ["CON", "CON", "-"],
        COLUMN: ["0.53-0.78", "0-1.25", "-"],
    }
    assert not reading.notes
    check_files([trials])


def test_the_finest_array_is_taken_without_an_rttm(lay, read):
    root = lay({FILE: PROTOCOL}, audio(""))
    (root / "segment_labels").mkdir()
    names = [name.removesuffix(".wav") for name in RECORDINGS[:3]]
    coarse = dict(zip(names, [np.array(["0"]), np.array(["0"]), np.array(["1"])], strict=True))
    fine = {
        names[0]: np.array(["1", "0", "0", "1"]),
        names[1]: np.array(["0", "0"]),
        names[2]: np.array(["1", "1"]),
    }
    np.save(root / "segment_labels/dev_seglab_0.16.npy", coarse, allow_pickle=True)
    np.save(root / "segment_labels/dev_seglab_0.02.npy", fine, allow_pickle=True)
    trials, _ = read("partial-spoof:dev", root)
    assert spoofed_parts_of(trials) == [(Segment(0.02, 0.06),), (Segment(0, 0.04),), ()]


def test_a_spoof_without_segments_is_detected_but_not_localised(lay, read):
    trials, reading = read("partial-spoof:dev", lay({FILE: PROTOCOL}, audio("")))
    assert trials.columns[COLUMN] == ["?", "?", "-"]
    (note,) = reading.notes
    assert note.startswith("segment_labels (database_segment_labels_v1.2.tar.gz), which is not")
    assert "does not list 2 spoofs, such as CON_D_0000000" in note
    with pytest.raises(AsdfError, match="file of segments was missing"):
        spoofed_parts(trials, 0)


def test_segments_that_contradict_a_label_are_noted(lay, read):
    swapped = RTTM.replace("spoof", "x").replace("bonafide", "spoof").replace(" x ", " bonafide ")
    files = {FILE: PROTOCOL, "dev/con_data/rttm": swapped}
    trials, reading = read("partial-spoof:dev", lay(files, audio("")))
    assert trials.columns[COLUMN] == ["0-0.53", "?", "-"]
    assert "contradicts the labels of 2 trials, such as CON_D_0000001" in reading.notes[0]


def test_archives_stay_as_tars(lay, read):
    root = lay({FILE: PROTOCOL, "dev/con_data/rttm": RTTM}, audio(""), folder="corpus/database")
    base = root.parents[1]
    move_into_tar(base / "corpus", base / "PartialSpoof.tar", ".")
    tree = find_tree(KNOWN["partial-spoof"], base)
    reading = KNOWN["partial-spoof"].read(tree, "dev")
    assert reading.trials.columns[COLUMN] == ["0.53-0.78", "0-1.25", "-"]


def test_a_missing_recording_is_named_as_it_is_distributed(lay, read):
    trials, _ = read("partial-spoof:dev", lay({FILE: PROTOCOL}))
    assert trials.ids[0] == "dev/con_wav/CON_D_0000000.wav"


def test_without_a_protocol_it_says_which_archive_has_it(lay, read):
    with pytest.raises(AsdfError, match=r"database_protocols\.tar\.gz"):
        read("partial-spoof:eval", lay({FILE: PROTOCOL}))


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
