"""Facts of the field that several rooms need; each is written here once.

Sources of the numbers of trials: the protocols, keys and metadata of the corpora; for ASVspoof 5
and Fake-or-Real counts in several public code bases, which agree; for WaveFake its datasheet; the
bona fide trials of ASVspoof 2021 from re-evaluations published with code; for ASVspoof 2021 PA,
HABLA and LibriSeVoc counts in public repositories; for Codecfake and DECRO the READMEs of their
repositories; for CtrSVDD the page of a list of it.
"""

from __future__ import annotations

from dataclasses import dataclass

SAMPLE_RATE = 16_000
"""Samples per second of every waveform inside ASDF."""

_LIBSNDFILE = "wav flac ogg oga opus mp2 mp3 aif aiff aifc au snd caf rf64 w64 sph nist"
_PYAV = "3gp aac ac3 amr avi flv m4a m4b mka mkv mov mp4 mpg mpeg webm wma"
AUDIO_SUFFIXES = frozenset(f".{name}" for name in f"{_LIBSNDFILE} {_PYAV}".split())
"""Suffixes, in lower case, of files that hold recordings."""

DEMO_PREFIX = "demo-"
"""What the names of the sets of the demo corpus begin with."""


@dataclass(frozen=True)
class Published:
    """The number of trials of a set; `bona_fide` is None where only the sum is known."""

    trials: int
    bona_fide: int | None = None

    @property
    def spoof(self) -> int | None:
        """The number of spoof trials, if it is known."""
        return None if self.bona_fide is None else self.trials - self.bona_fide


PUBLISHED: dict[str, dict[str, Published]] = {
    "asvspoof19": {
        "train": Published(25_380, 2_580),
        "dev": Published(24_844, 2_548),
        "eval": Published(71_237, 7_355),
    },
    "asvspoof19-pa": {
        "train": Published(54_000, 5_400),
        "dev": Published(29_700, 5_400),
        "eval": Published(134_730, 18_090),
    },
    "asvspoof21-la": {
        "eval": Published(148_176, 14_816),
        "progress": Published(16_464),
        "hidden": Published(16_926),
        "all": Published(181_566),
    },
    "asvspoof21-df": {
        "eval": Published(533_928, 14_869),
        "progress": Published(59_325),
        "hidden": Published(18_576),
        "all": Published(611_829),
    },
    "asvspoof21-pa": {
        "eval": Published(721_332),
        "progress": Published(87_048),
        "hidden": Published(134_730),
        "all": Published(943_110),
    },
    "asvspoof5": {
        "train": Published(182_357, 18_797),
        "dev": Published(140_950, 31_334),
        "eval": Published(680_774, 138_688),
    },
    "in-the-wild": {"": Published(31_779, 19_963)},
    "wavefake": {"": Published(117_985, 0)},
    "arena": {
        "ASVspoof2019_LA": Published(71_237, 7_355),
        "ASVspoof2021_LA": Published(181_566),
        "ASVspoof2021_DF": Published(611_829),
        "InTheWild": Published(31_779, 19_963),
    },
    "codecfake-xie": {
        "train": Published(740_747),
        "dev": Published(92_596),
        **{f"C{number}": Published(26_456) for number in range(1, 7)},
        "C7": Published(145_505),
        "A1": Published(8_902),
        "A2": Published(8_902),
        "A3": Published(99_112),
    },
    "decro": {
        "en_train": Published(22_541, 5_129),
        "en_dev": Published(13_552, 3_049),
        "en_eval": Published(19_190, 4_306),
        "ch_train": Published(26_850, 9_000),
        "ch_dev": Published(18_124, 6_109),
        "ch_eval": Published(18_124, 6_109),
    },
    "ctrsvdd": {"test": Published(92_769, 13_596)},
    "habla": {"": Published(80_816)},
    "librisevoc": {"": Published(92_407, 13_201)},
    "for-norm": {
        "training": Published(53_868, 26_941),
        "validation": Published(10_798, 5_400),
        "testing": Published(4_634, 2_264),
    },
    "partial-spoof": {
        "train": Published(25_380, 2_580),
        "dev": Published(24_844, 2_548),
        "eval": Published(71_237, 7_355),
    },
    "llama-partial-spoof": {
        "a": Published(76_228, 10_573),
        "b": Published(64_388, 0),
        "full": Published(44_034, 10_573),
        "partial": Published(42_767, 10_573),
    },
}
"""The numbers of trials by corpus and subset; '' is everything."""
