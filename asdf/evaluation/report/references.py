"""Results of the literature, to be shown beside measured ones: for the same set and the same trials only.

Invariant: a published result is shown for a set only if the set goes by its known name and has exactly the published
numbers of trials; results over another subset are not comparable (over all trials of ASVspoof 2021 LA, EERs are
several times those over its subset eval).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """A published result: EER in %, the least (normalised) t-DCF if it was published, the paper, what is special."""

    system: str
    eer: float
    min_tdcf: float | None
    paper: str
    note: str = ""


@dataclass(frozen=True)
class KnownSet:
    """A public evaluation set: its numbers of trials, and what was published on it."""

    title: str
    bona_fide: int
    spoof: int
    results: tuple[Reference, ...]


_AASIST = (
    "Jung et al., AASIST: audio anti-spoofing using integrated spectro-temporal graph attention networks, ICASSP 2022"
)
_SSL = (
    "Tak et al., Automatic speaker verification spoofing and deepfake detection using wav2vec 2.0 and data "
    "augmentation, Odyssey 2022"
)
_TCM = (
    "Truong et al., Temporal-channel modeling in multi-head self-attention for synthetic speech detection, "
    "Interspeech 2024"
)
_SLS = "Zhang et al., Audio deepfake detection with self-supervised XLS-R and SLS classifier, ACM Multimedia 2024"
_MAMBA = (
    "Xiao and Das, XLSR-Mamba: a dual-column bidirectional state space model for spoofing attack detection, "
    "IEEE Signal Processing Letters 2025"
)
_NES2NET = (
    "Liu et al., Nes2Net: a lightweight nested architecture for foundation model driven speech anti-spoofing, "
    "IEEE Transactions on Information Forensics and Security 2025"
)
_OTHERS = "as later papers report it"

_2019_LA = KnownSet(
    "ASVspoof 2019 LA, evaluation",
    7_355,
    63_882,
    (Reference("AASIST", 0.83, 0.0275, _AASIST), Reference("AASIST-L", 0.99, 0.0309, _AASIST)),
)
_2021_LA = KnownSet(
    "ASVspoof 2021 LA, subset eval",
    14_816,
    133_360,
    (
        Reference("XLS-R + AASIST", 0.82, 0.2066, _SSL, "best of several trainings; their mean is 1.00 %"),
        Reference("XLSR-Mamba", 0.93, 0.208, _MAMBA),
        Reference("XLS-R + Conformer-TCM", 1.03, None, _TCM),
        Reference("Nes2Net-X", 1.73, None, _NES2NET),
        Reference("XLS-R + SLS", 2.87, None, _SLS),
    ),
)
_2021_DF = KnownSet(
    "ASVspoof 2021 DF, subset eval",
    14_869,
    519_059,
    (
        Reference("Nes2Net-X", 1.65, None, _NES2NET),
        Reference("XLSR-Mamba", 1.88, None, _MAMBA),
        Reference("XLS-R + SLS", 1.92, None, _SLS),
        Reference("XLS-R + Conformer-TCM", 2.06, None, _TCM),
        Reference("XLS-R + AASIST", 2.85, None, _SSL, "best of several trainings; their mean is 3.69 %"),
    ),
)
_IN_THE_WILD = KnownSet(
    "In-the-Wild",
    19_963,
    11_816,
    (
        Reference("Nes2Net-X", 5.52, None, _NES2NET),
        Reference("XLSR-Mamba", 6.71, None, _MAMBA),
        Reference("XLS-R + SLS", 7.46, None, _SLS),
        Reference("XLS-R + Conformer-TCM", 7.79, None, _TCM),
        Reference("XLS-R + AASIST", 10.46, None, _SSL, _OTHERS),
        Reference("AASIST", 43.0, None, _AASIST, _OTHERS),
        Reference("AASIST-L", 44.5, None, _AASIST, _OTHERS),
    ),
)

KNOWN_SETS = {
    "asvspoof19-eval": _2019_LA,
    "asvspoof19:eval": _2019_LA,
    "asvspoof21-la:eval": _2021_LA,
    "asvspoof21-df:eval": _2021_DF,
    "in-the-wild": _IN_THE_WILD,
}
"""By the names that recipes give them; ':eval' is the subset."""


def comparable(name: str, bona_fide: int, spoof: int) -> KnownSet | None:
    """The known set that `name` is, if these are its numbers of trials; else None."""
    known = KNOWN_SETS.get(name)
    return known if known and (known.bona_fide, known.spoof) == (bona_fide, spoof) else None
