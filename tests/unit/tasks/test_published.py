"""The numbers of the literature, copied a second time from their papers: none can be derived."""

from __future__ import annotations

import pytest

from asdf.tasks.studies.generalisation import KNOWN_SETS, of_the_same_length
from asdf.trials.how_scored import PUBLISHED, WHOLE, ScoredLength

_66800 = ScoredLength(66800, 66800)

# EER %, min t-DCF, scored length. The EERs of AASIST are those of its paper (ICASSP 2022) and of
# clovaai/aasist, the others are in the tables of Liu-Tianchi/Nes2Net_ASVspoof_ITW too; the t-DCFs
# are those of the systems' papers. Lengths: data_utils.py of clovaai/aasist (64,600),
# data_utils_SSL.py of TakHemlata/SSL_Anti-spoofing, of QiShanZhang/SLSforASVspoof-2021-DF and of
# Nes2Net (64,600; for In-the-Wild its README has --test_protocol full), data_utils.py of
# ductuantruong/tcm_add and of XLSR-Mamba (66,800; 64,600 for In-the-Wild).
TABLE = {
    "asvspoof19-eval": {"AASIST": (0.83, 0.0275, PUBLISHED), "AASIST-L": (0.99, 0.0309, PUBLISHED)},
    "asvspoof21-la:eval": {
        "XLS-R + AASIST": (0.82, 0.2066, PUBLISHED),
        "XLSR-Mamba": (0.93, 0.208, _66800),
        "XLS-R + Conformer-TCM": (1.03, None, _66800),
        "Nes2Net-X": (1.73, None, PUBLISHED),
        "XLS-R + SLS": (2.87, None, PUBLISHED),
    },
    "asvspoof21-df:eval": {
        "Nes2Net-X": (1.65, None, PUBLISHED),
        "XLSR-Mamba": (1.88, None, _66800),
        "XLS-R + SLS": (1.92, None, PUBLISHED),
        "XLS-R + Conformer-TCM": (2.06, None, _66800),
        "XLS-R + AASIST": (2.85, None, PUBLISHED),
    },
    "in-the-wild": {
        "Nes2Net-X": (5.52, None, WHOLE),
        "XLSR-Mamba": (6.71, None, PUBLISHED),
        "XLS-R + SLS": (7.46, None, PUBLISHED),
        "XLS-R + Conformer-TCM": (7.79, None, PUBLISHED),
        "XLS-R + AASIST": (10.46, None, None),
        "AASIST": (43.0, None, None),
        "AASIST-L": (44.5, None, None),
    },
}
COUNTS = {
    "asvspoof19-eval": (7_355, 63_882),
    "asvspoof21-la:eval": (14_816, 133_360),
    "asvspoof21-df:eval": (14_869, 519_059),
    "in-the-wild": (19_963, 11_816),
}


@pytest.mark.parametrize("name", TABLE)
def test_every_number_is_that_of_its_paper(name):
    known = KNOWN_SETS[name]
    shown = {
        result.system: (result.eer, result.min_tdcf, result.scored) for result in known.results
    }
    assert shown == TABLE[name]
    assert (known.trials.bona_fide, known.trials.spoof) == COUNTS[name]


def test_both_names_of_a_set_are_the_same_set():
    assert KNOWN_SETS["asvspoof19:eval"] is KNOWN_SETS["asvspoof19-eval"]
    assert KNOWN_SETS["asvspoof21-la:eval"] is KNOWN_SETS["asvspoof21-la-eval"]
    assert KNOWN_SETS["asvspoof21-df:eval"] is KNOWN_SETS["asvspoof21-df-eval"]
    assert KNOWN_SETS["in-the-wild"] is KNOWN_SETS["itw"]
    others = {"asvspoof19:eval", "asvspoof21-la-eval", "asvspoof21-df-eval", "itw"}
    assert set(KNOWN_SETS) == {*TABLE, *others}


def test_only_results_of_the_same_length_are_next_to_ours():
    known = KNOWN_SETS["asvspoof21-la:eval"]

    def systems(scored):
        return [result.system for result in of_the_same_length(known, scored)]

    assert systems(PUBLISHED) == ["XLS-R + AASIST", "Nes2Net-X", "XLS-R + SLS"]
    assert systems(_66800) == ["XLSR-Mamba", "XLS-R + Conformer-TCM"]
    assert systems(ScoredLength(16000, 1_000_000)) == systems(None) == []
    in_the_wild = KNOWN_SETS["in-the-wild"]
    whole = of_the_same_length(in_the_wild, ScoredLength(16000, 1_000_000))
    assert [result.system for result in whole] == ["Nes2Net-X"]
