"""What a training set shares with an evaluation set, and what is apart by design."""

from __future__ import annotations

import pytest

from asdf.corpora import choose, describe_origin, describe_overlaps, sharing


def overlaps(trained: str, scored: str) -> list[str]:
    return describe_overlaps([choose(trained)], [choose(scored)])


@pytest.mark.parametrize(
    ("trained", "scored", "part"),
    [
        ("asvspoof19:eval", "asvspoof21-la:eval", "the attacks of 2019 LA eval (A07 to A19)"),
        ("asvspoof19-eval", "arena:ASVspoof2021_DF", "the part 'asvspoof' of 2021 DF is from 2019"),
        (
            "asvspoof19",
            "dfadd:test",
            "both have speech of VCTK (according to the table of sources in nii-",
        ),
        ("codecfake-xie:train", "librisevoc", "both have speech of LibriSpeech"),
        ("librisevoc", "diffssd:test", "both have speech of LibriSpeech"),
        ("wavefake", "for-2sec:testing", "both have speech of LJSpeech"),
        ("wavefake", "decro:en_eval", "DECRO has spoofs of WaveFake"),
        ("m-ailabs", "mlaad:de", "both have speech of M-AILABS"),
        ("cfad:clean-train", "add23:test-r2", "both have speech of AISHELL-3"),
        ("asvspoof19", "partial-spoof:train", "PartialSpoof is made of the recordings of ASVsp"),
        ("asvspoof5:eval", "arena:ASVspoof5", "is trained on as asvspoof5:eval: its results are"),
        ("asvspoof19:eval", "asvspoof19-eval", "is trained on as asvspoof19:eval"),
    ],
)
def test_what_is_shared(trained, scored, part):
    (sentence,) = overlaps(trained, scored)
    assert part in sentence and choose(scored).name in sentence


@pytest.mark.parametrize(
    ("trained", "scored"),
    [
        ("asvspoof19", "asvspoof19-eval"),
        ("asvspoof19", "asvspoof21-la:eval"),
        ("asvspoof19-dev", "asvspoof21-df:eval"),
        ("asvspoof19", "partial-spoof:eval"),
        ("asvspoof19-pa:train", "asvspoof21-pa:eval"),
        ("asvspoof19", "in-the-wild"),
        ("asvspoof19", "asvspoof5:eval"),
        ("asvspoof5:train", "asvspoof5:eval"),
        ("parquet", "parquet"),
    ],
)
def test_what_is_apart_or_not_known(trained, scored):
    assert overlaps(trained, scored) == []


def test_a_corpus_and_those_that_share_its_speech():
    assert describe_origin("for-rerec") == "LJSpeech (according to the corpus's paper)"
    assert describe_origin("sonar") == ""
    assert sharing("m-ailabs") == ["mlaad"]
    assert sharing("wavefake") == [
        "decro",
        "diffssd",
        "for",
        "for-2sec",
        "for-original",
        "for-rerec",
        "ljspeech",
    ]
