"""ASVspoof 2021: keys in a separate archive, and the parts of its audio."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from asdf.trials.lists import check_files
from tests.unit.corpora.conftest import Lay, Read
from tests.unit.corpora.test_protocols import DF21, LA21

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
    assert reading.notes == []
    assert reading.others == {f"ASVspoof2021_LA_eval/flac/LA_E_{i}.flac" for i in (2, 3)}
    everything, reading = read("asvspoof21-la:all", root)
    assert everything.columns["subset"] == [
        "eval",
        "progress",
        "hidden",
    ] and everything.labels.tolist() == [0, 1, 1]
    assert list(reading.notes) == [
        "these are all trials, of eval, progress and hidden; published numbers are of subset eval "
        "only"
    ]


def test_keys_of_the_other_track_are_not_taken_for_its_own(lay: Lay, read: Read) -> None:
    root = lay({"keys/CM/trial_metadata.txt": DF21}, "ASVspoof2021_LA_eval/flac/LA_E_1.flac")
    with pytest.raises(
        AsdfError, match=r"no keys/LA/CM/trial_metadata\.txt.*LA-keys-full\.tar\.gz"
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
