"""The corpora of ASVspoof: their protocols, audio folders, and keys in a separate archive."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from asdf.corpora import choose, find_tree, read_known
from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files
from asdf.trials.trees import open_tree
from tests.unit.corpora.conftest import Lay, Read
from tests.unit.corpora.test_protocols import ASVSPOOF5, DF21, LA19, LA21

PROTOCOLS = "LA/ASVspoof2019_LA_cm_protocols/ASVspoof2019.LA.cm"
FLAC19 = "LA/ASVspoof2019_LA_train/flac"


def test_asvspoof_2019_has_the_ids_that_it_always_had(lay: Lay, read: Read) -> None:
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
def test_the_other_sets_of_2019(lay: Lay, read: Read, name: str, file: str) -> None:
    subset = file.split(".")[0]
    root = lay({f"{PROTOCOLS}.{file}.txt": LA19})
    assert read(name, root)[0].ids[0] == f"LA/ASVspoof2019_LA_{subset}/flac/LA_T_1.flac"
    with pytest.raises(
        AsdfError, match=r"there is no file .*ASVspoof2019\.LA\.cm\.train\.trn\.txt"
    ):
        read("asvspoof19", root)


def test_suffixes_in_capitals_are_found_and_foreign_files_are_not(lay: Lay, read: Read) -> None:
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


def test_a_tar_of_it_beside_other_corpora_has_the_same_ids(lay: Lay, tmp_path: Path) -> None:
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


def tarred(folder: Path, archive: Path, within: str) -> None:
    """Move a folder into a tar, in which it is called `within`."""
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, within)
    shutil.rmtree(folder)


def test_a_tar_of_the_audio_beside_unpacked_protocols(lay: Lay, read: Read) -> None:
    root = lay({f"{PROTOCOLS}.train.trn.txt": LA19}, f"{FLAC19}/LA_T_1.flac\n{FLAC19}/LA_T_2.FLAC")
    tarred(
        root / "LA/ASVspoof2019_LA_train",
        root / "LA/ASVspoof2019_LA_train.tar",
        "ASVspoof2019_LA_train",
    )
    utterances, reading = read("asvspoof19", root)
    assert utterances.ids == [f"{FLAC19}/LA_T_1.flac", f"{FLAC19}/LA_T_2.FLAC"]
    assert compare_with_disk(reading, open_tree(root)) == OnDisk([], [])
    check_files([utterances])


@pytest.mark.parametrize("outer", ["DS_10283_3336", "DS_10283_3336/LA"])
def test_2019_as_its_archive_of_archives_unpacks(lay: Lay, outer: str) -> None:
    root = lay({f"{outer}/{PROTOCOLS}.train.trn.txt": LA19})
    assert find_tree(choose("asvspoof19").corpus, root).root == root / outer


KEYS = {
    "keys/LA/CM/trial_metadata.txt": ".",
    "ASVspoof2021_LA_eval/keys/LA/CM/trial_metadata.txt": ".",
    "LA-keys-full/keys/LA/CM/trial_metadata.txt": ".",
    "LA-keys-stage-1/keys/CM/trial_metadata.txt": ".",
    "ASVspoof2021_LA_eval/CM/trial_metadata.txt": ".",
    "ASVspoof2021_LA_eval/trial_metadata.txt": ".",
}


@pytest.mark.parametrize("keys", KEYS)
def test_the_keys_of_2021_are_found_where_they_were_unpacked(
    lay: Lay, read: Read, keys: str
) -> None:
    root = lay(
        {keys: LA21},
        "".join(f"ASVspoof2021_LA_eval/flac/LA_E_{i}.flac\n" for i in (1, 2, 3)).strip(),
    )
    utterances, reading = read("asvspoof21-la:eval", root)
    assert utterances.ids == ["ASVspoof2021_LA_eval/flac/LA_E_1.flac"] and utterances.columns[
        "codec"
    ] == ["alaw"]
    assert reading.notes == ()
    assert reading.others == {f"ASVspoof2021_LA_eval/flac/LA_E_{i}.flac" for i in (2, 3)}
    everything, reading = read("asvspoof21-la:all", root)
    assert everything.columns["subset"] == [
        "eval",
        "progress",
        "hidden",
    ] and everything.labels.tolist() == [0, 1, 1]
    assert list(reading.notes) == [
        "these are all trials, of eval, progress and hidden; published numbers are of subset "
        "eval alone"
    ]


def test_keys_of_the_other_track_are_not_taken_for_its_own(lay: Lay, read: Read) -> None:
    root = lay({"keys/CM/trial_metadata.txt": DF21}, "ASVspoof2021_LA_eval/flac/LA_E_1.flac")
    with pytest.raises(
        AsdfError, match=r"the keys of ASVspoof 2021 LA are not there.*LA-keys-full\.tar\.gz"
    ):
        read("asvspoof21-la:eval", root)
    lay({"trial_metadata.txt": LA21})
    assert read("asvspoof21-la:eval", root)[0].ids == ["ASVspoof2021_LA_eval/flac/LA_E_1.flac"]


def test_the_parts_of_2021_df_are_one_corpus_however_they_were_unpacked(
    lay: Lay, read: Read
) -> None:
    keys = {"DF-keys-full/keys/DF/CM/trial_metadata.txt": DF21}
    apart = lay(
        keys,
        "ASVspoof2021_DF_eval_part00/ASVspoof2021_DF_eval/flac/DF_E_2.flac\n"
        "ASVspoof2021_DF_eval_part03/ASVspoof2021_DF_eval/flac/DF_E_3.flac",
        folder="apart",
    )
    utterances, _ = read("asvspoof21-df:eval", apart)
    check_files([utterances])
    assert [name.split("/")[0][-2:] for name in utterances.ids] == ["00", "03"]
    assert utterances.columns["vocoder"] == ["neural_vocoder_nonautoregressive", "-"]
    whole = lay(
        keys,
        "".join(f"ASVspoof2021_DF_eval/flac/DF_E_{i}.flac\n" for i in (2, 3)).strip(),
        folder="whole",
    )
    lay(
        empty="ASVspoof2021_DF_eval_part00/ASVspoof2021_DF_eval/flac/DF_E_2.flac", folder="whole"
    )  # left behind
    utterances, _ = read("asvspoof21-df:eval", whole)
    check_files([utterances])
    assert utterances.ids[0] == "ASVspoof2021_DF_eval/flac/DF_E_2.flac"


@pytest.mark.parametrize(
    ("protocol", "audio"),
    [
        ("ASVspoof5.dev.track_1.tsv", "flac_D"),
        ("ASVspoof5_protocols/ASVspoof5.dev.track_1.tsv", "flac_D"),
        ("ASVspoof5_protocols/ASVspoof5.dev.track_1.tsv", "ASVspoof5_dev/flac_D"),
    ],
)
def test_asvspoof_5(lay: Lay, read: Read, protocol: str, audio: str) -> None:
    root = lay(
        {protocol: ASVSPOOF5},
        f"{audio}/D_1.flac\n{audio}/D_2.flac\n{audio}/E_3.flac\n{audio}/D_A1.flac",
    )
    utterances, reading = read("asvspoof5:dev", root)
    assert utterances.ids == [f"{audio}/D_1.flac", f"{audio}/D_2.flac", f"{audio}/E_3.flac"]
    assert utterances.columns["attack"] == ["A14", "-", "A26"] and reading.audio == (audio,)
    check_files([utterances])
    with pytest.raises(
        AsdfError, match=r"no ASVspoof5\.train\.tsv.*Unpack ASVspoof5_protocols\.tar\.gz"
    ):
        read("asvspoof5:train", root)


def test_the_tars_of_asvspoof_5_may_stay_as_they_are(lay: Lay, read: Read) -> None:
    """Each of them unpacks into the same folder, which would count if it were there."""
    root = lay({"ASVspoof5.eval.track_1.tsv": ASVSPOOF5}, "a/D_1.flac\na/D_2.flac\nj/E_3.flac")
    for part in "aj":
        tarred(root / part, root / f"flac_E_a{part}.tar", "flac_E_eval")
    utterances, reading = read("asvspoof5:eval", root)
    assert utterances.ids == [
        "flac_E_aa/flac_E_eval/D_1.flac",
        "flac_E_aa/flac_E_eval/D_2.flac",
        "flac_E_aj/flac_E_eval/E_3.flac",
    ]
    assert compare_with_disk(reading, open_tree(root)) == OnDisk([], [])
    check_files([utterances])
