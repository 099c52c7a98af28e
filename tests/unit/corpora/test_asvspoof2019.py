"""ASVspoof 2019: what else its folders may look like, and tars of it."""

from __future__ import annotations

import pytest

from asdf.corpora import choose, find_tree, read_known
from asdf.corpora.command import compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import move_into_tar
from tests.unit.corpora.test_protocols import LA19

PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"
FLAC19 = "LA/ASVspoof2019_LA_train/flac"


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
    names = [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.flac"]
    folder = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, "\n".join(names), folder="base/LA-source")
    move_into_tar(folder / "LA", tmp_path / "base" / "LA.tar", "LA")
    chosen = choose("asvspoof19")
    packed, _ = read_known(chosen, find_tree(chosen.corpus, tmp_path / "base"))
    assert packed.ids == names
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
    assert compare_with_disk(reading, open_tree(root)) == ([], [])
    check_files([utterances])


@pytest.mark.parametrize("outer", ["DS_10283_3336", "DS_10283_3336/LA"])
def test_2019_as_its_archive_of_archives_unpacks(lay, outer):
    root = lay({f"{outer}/{PROTOCOLS}.train.trn.txt": LA19})
    assert find_tree(choose("asvspoof19").corpus, root).root == root / outer
