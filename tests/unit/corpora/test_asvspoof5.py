"""ASVspoof 5: protocols and audio, unpacked or in tars."""

from __future__ import annotations

import pytest

from asdf.corpora.checking import OnDisk, compare_with_disk
from asdf.errors import AsdfError
from asdf.trials.lists import check_files, open_tree
from tests.unit.corpora.conftest import Lay, Read, move_into_tar
from tests.unit.corpora.test_protocols import ASVSPOOF5


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
        move_into_tar(root / part, root / f"flac_E_a{part}.tar", "flac_E_eval")
    utterances, reading = read("asvspoof5:eval", root)
    assert utterances.ids == [
        "flac_E_aa/flac_E_eval/D_1.flac",
        "flac_E_aa/flac_E_eval/D_2.flac",
        "flac_E_aj/flac_E_eval/E_3.flac",
    ]
    assert compare_with_disk(reading, open_tree(root)) == OnDisk([], [])
    check_files([utterances])


def test_archives_next_to_the_unpacked_folder_are_not_opened(lay: Lay, read: Read) -> None:
    root = lay({"ASVspoof5.eval.track_1.tsv": ASVSPOOF5}, "flac_E_eval/D_1.flac")
    # A tar that cannot be read would be an error, and an index of a whole one takes minutes.
    (root / "flac_E_aa.tar").write_bytes(b"no tar")
    _, reading = read("asvspoof5:eval", root)
    assert reading.audio == ("flac_E_eval",)
