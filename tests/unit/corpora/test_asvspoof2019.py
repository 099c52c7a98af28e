"""ASVspoof 2019: protocols and audio folders, unpacked or in tars."""

from __future__ import annotations

import tarfile

import pytest

from asdf.corpora import choose, find_tree, read_known
from asdf.corpora.command import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar
from tests.unit.corpora.test_protocols import LA19

PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"


FLAC19 = "LA/ASVspoof2019_LA_train/flac"


def test_asvspoof_2019_has_the_ids_that_it_always_had(lay, read):
    root = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, f"{FLAC19}/LA_T_1.flac\n{FLAC19}/LA_T_2.flac")
    utterances, _ = read("asvspoof19", root)
    assert (
        utterances.ids == [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.flac"]
        and utterances.folder == root
    )
    assert utterances.labels.tolist() == [1, 0]
    assert utterances.columns == {"speaker": ["LA_0079", "LA_0080"], "attack": ["-", "A01"]}
    check_files([utterances])
    # Given its own folder instead of the one around it, the same files.
    inner, _ = read("asvspoof19:train", root / "LA")
    assert [inner.path(i) for i in (0, 1)] == [utterances.path(i) for i in (0, 1)]


@pytest.mark.parametrize(
    ("name", "file"), [("asvspoof19-dev", "dev.trl"), ("asvspoof19:eval", "eval.trl")]
)
def test_the_other_sets_of_2019(lay, read, name, file):
    subset = file.split(".")[0]
    root = lay({f"{PROTOCOLS}.{file}.txt": LA19})
    assert read(name, root)[0].ids[0] == f"LA/ASVspoof2019_LA_{subset}/flac/LA_T_1.flac"
    with pytest.raises(AsdfError, match=r"there is no .*ASVspoof2019\.LA\.cm\.train\.trn\.txt"):
        read("asvspoof19", root)


def test_suffixes_in_capitals_are_found_and_foreign_files_are_not(lay, read):
    root = lay(
        {f"{PROTOCOLS}.train.trn.txt": LA19},
        f"{FLAC19}/LA_T_1.FLAC\n{FLAC19}/._LA_T_1.FLAC\n{FLAC19}/LA_T_2.txt\n{FLAC19}/.LA_T_2.flac",
    )
    utterances, _ = read("asvspoof19", root)
    assert utterances.ids == [f"{FLAC19}/LA_T_1.FLAC", f"{FLAC19}/LA_T_2.flac"]
    with pytest.raises(
        AsdfError, match=r"1 of the 2 files of asvspoof19:train are not in .*\n.*LA_T_2\.flac"
    ):
        check_files([utterances])


def test_a_tar_of_it_next_to_other_corpora_has_the_same_ids(lay, tmp_path):
    files = {
        f"{PROTOCOLS}.train.trn.txt": LA19,
        f"{FLAC19}/LA_T_1.flac": "one",
        f"{FLAC19}/LA_T_2.flac": "two",
    }
    folder = lay(files, folder="unpacked")
    (tmp_path / "base").mkdir()
    with tarfile.open(tmp_path / "base" / "LA.tar", "w") as tar:
        tar.add(folder / "LA", "LA")
    chosen = choose("asvspoof19")
    packed, unpacked = (
        read_known(chosen, find_tree(chosen.corpus, root))[0]
        for root in (tmp_path / "base", folder)
    )
    assert packed.ids == unpacked.ids == [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.flac"]
    check_files([packed])


def test_a_tar_of_the_audio_next_to_unpacked_protocols(lay, read):
    root = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, f"{FLAC19}/LA_T_1.flac\n{FLAC19}/LA_T_2.FLAC")
    move_into_tar(
        root / "LA/ASVspoof2019_LA_train",
        root / "LA/ASVspoof2019_LA_train.tar",
        "ASVspoof2019_LA_train",
    )
    utterances, reading = read("asvspoof19", root)
    assert utterances.ids == [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.FLAC"]
    assert compare_with_disk(reading, open_tree(root)) == OnDisk([], [])
    check_files([utterances])


@pytest.mark.parametrize("outer", ["DS_10283_3336", "DS_10283_3336/LA"])
def test_2019_as_its_archive_of_archives_unpacks(lay, outer):
    root = lay({f"{outer}/{PROTOCOLS}.train.trn.txt": LA19})
    assert find_tree(choose("asvspoof19").corpus, root).root == root / outer
