"""M-AILABS: bona fide speech by language."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError


def test_m_ailabs(lay, read):
    book = "en_US/by_book/male/elliot_miller/hunters_space"
    elliot = f"{book}/wavs"
    mix, deep = "de_DE/by_book/mix/sagen/wavs", "de_DE/by_book/mix/mix/various/wavs"
    root = lay(
        {f"{book}/metadata.csv": "h_1|One|One\nh_2|Two|Two\n"},
        f"{elliot}/h_1.wav\n{elliot}/._h_1.wav\n{mix}/s.wav\n{deep}/v.wav\n"
        "en_US/by_book/male/elliot_miller/info.txt",
    )
    utterances, reading = read("m-ailabs", root)
    assert (
        utterances.ids == [f"{deep}/v.wav", f"{mix}/s.wav", f"{elliot}/h_1.wav"]
        and utterances.labels.all()
    )
    assert utterances.columns == {
        "speaker": ["", "", "elliot_miller"],
        "attack": ["-", "-", "-"],
        "language": ["de_DE", "de_DE", "en_US"],
        "gender": ["mix", "mix", "male"],
        "book": ["various", "sagen", "hunters_space"],
    }
    assert list(reading.notes) == [
        f"{book}/metadata.csv names recordings that are not there: 1, such as h_2"
    ]
    assert read("m-ailabs:en_US", root)[0].ids == [f"{elliot}/h_1.wav"]
    with pytest.raises(AsdfError, match=r"no recordings fr_FR/by_book"):
        read("m-ailabs:fr_FR", root)
