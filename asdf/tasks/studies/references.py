"""Published results, shown next to measured ones for the same set, trials and scored length.

Invariant: a published result is shown for a set only if the set has its known name and exactly the
published numbers of trials, and as much of each recording was scored. Results on another subset are
not comparable (on all trials of ASVspoof 2021 LA, EERs are several times those on its subset eval),
nor are results with other lengths.

The scored lengths are those of the authors' published evaluation code: AASIST, SSL_Anti-spoofing
and SLS use 64,600 samples, Conformer-TCM and XLSR-Mamba 66,800 on ASVspoof 2021 and 64,600 on
In-the-Wild, Nes2Net-X 64,600 on ASVspoof 2021 and whole recordings on In-the-Wild. The lengths
behind results that later papers report for other systems are unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from asdf.facts import PUBLISHED as PUBLISHED_TRIALS
from asdf.facts import Published
from asdf.trials.how_scored import PUBLISHED, WHOLE, ScoredLength

_AASIST = (
    "Jung et al., AASIST: audio anti-spoofing using integrated spectro-temporal graph attention "
    "networks, ICASSP 2022"
)
_SSL = (
    "Tak et al., Automatic speaker verification spoofing and deepfake detection using wav2vec 2.0 "
    "and data augmentation, Odyssey 2022"
)
_TCM = (
    "Truong et al., Temporal-channel modeling in multi-head self-attention for synthetic speech "
    "detection, Interspeech 2024"
)
_SLS = (
    "Zhang et al., Audio deepfake detection with self-supervised XLS-R and SLS classifier, "
    "ACM Multimedia 2024"
)
_MAMBA = (
    "Xiao and Das, XLSR-Mamba: a dual-column bidirectional state space model for spoofing attack "
    "detection, IEEE Signal Processing Letters 2025"
)
_NES2NET = (
    "Liu et al., Nes2Net: a lightweight nested architecture for foundation model driven speech "
    "anti-spoofing, IEEE Transactions on Information Forensics and Security 2025"
)
_OTHERS = "as later papers report it"


@dataclass(frozen=True)
class Reference:
    """A published result.

    Attributes:
        eer: Equal error rate, in %.
        min_tdcf: Minimum of the normalised t-DCF; None if it was not published.
        note: Remark on it.
        scored: Part of each recording that was scored; None if unknown.
    """

    system: str
    eer: float
    min_tdcf: float | None
    paper: str
    note: str = ""
    scored: ScoredLength | None = PUBLISHED


@dataclass(frozen=True)
class KnownSet:
    """A public evaluation set: its numbers of trials, and the results published on it."""

    title: str
    trials: Published
    results: tuple[Reference, ...]


_LONGER = ScoredLength(66800, 66800)

_2019_LA = KnownSet(
    "ASVspoof 2019 LA, evaluation",
    PUBLISHED_TRIALS["asvspoof19"]["eval"],
    (Reference("AASIST", 0.83, 0.0275, _AASIST), Reference("AASIST-L", 0.99, 0.0309, _AASIST)),
)
_2021_LA = KnownSet(
    "ASVspoof 2021 LA, subset eval",
    PUBLISHED_TRIALS["asvspoof21-la"]["eval"],
    (
        Reference(
            "XLS-R + AASIST", 0.82, 0.2066, _SSL, "best of several trainings; their mean is 1.00 %"
        ),
        Reference("XLSR-Mamba", 0.93, 0.208, _MAMBA, scored=_LONGER),
        Reference("XLS-R + Conformer-TCM", 1.03, None, _TCM, scored=_LONGER),
        Reference("Nes2Net-X", 1.73, None, _NES2NET),
        Reference("XLS-R + SLS", 2.87, None, _SLS),
    ),
)
_2021_DF = KnownSet(
    "ASVspoof 2021 DF, subset eval",
    PUBLISHED_TRIALS["asvspoof21-df"]["eval"],
    (
        Reference("Nes2Net-X", 1.65, None, _NES2NET),
        Reference("XLSR-Mamba", 1.88, None, _MAMBA, scored=_LONGER),
        Reference("XLS-R + SLS", 1.92, None, _SLS),
        Reference("XLS-R + Conformer-TCM", 2.06, None, _TCM, scored=_LONGER),
        Reference(
            "XLS-R + AASIST", 2.85, None, _SSL, "best of several trainings; their mean is 3.69 %"
        ),
    ),
)
_IN_THE_WILD = KnownSet(
    "In-the-Wild",
    PUBLISHED_TRIALS["in-the-wild"][""],
    (
        Reference("Nes2Net-X", 5.52, None, _NES2NET, scored=WHOLE),
        Reference("XLSR-Mamba", 6.71, None, _MAMBA),
        Reference("XLS-R + SLS", 7.46, None, _SLS),
        Reference("XLS-R + Conformer-TCM", 7.79, None, _TCM),
        Reference("XLS-R + AASIST", 10.46, None, _SSL, _OTHERS, scored=None),
        Reference("AASIST", 43.0, None, _AASIST, _OTHERS, scored=None),
        Reference("AASIST-L", 44.5, None, _AASIST, _OTHERS, scored=None),
    ),
)

KNOWN_SETS = {
    # Recipes declare 'NAME-eval', and corpora are known by 'NAME:eval'.
    "asvspoof19-eval": _2019_LA,
    "asvspoof19:eval": _2019_LA,
    "asvspoof21-la:eval": _2021_LA,
    "asvspoof21-la-eval": _2021_LA,
    "asvspoof21-df:eval": _2021_DF,
    "asvspoof21-df-eval": _2021_DF,
    "in-the-wild": _IN_THE_WILD,
    "itw": _IN_THE_WILD,
}
"""Known sets, by their names in recipes; ':eval' is the subset."""


def comparable(name: str, bona_fide: int, spoof: int) -> KnownSet | None:
    """Return the known set with this name and these numbers of trials; else None."""
    known = KNOWN_SETS.get(name)
    if known is None or (known.trials.bona_fide, known.trials.spoof) != (bona_fide, spoof):
        return None
    return known


def of_the_same_length(known: KnownSet, scored: ScoredLength | None) -> list[Reference]:
    """Return the published results for which as much of each recording was scored.

    None matches an unknown length.
    """
    if scored is None:
        return []
    return [one for one in known.results if one.scored and one.scored.agrees_with(scored)]
