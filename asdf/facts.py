"""Facts of the field that several rooms need, each written once.

Sources of the numbers of trials: the protocols, keys and metadata of the corpora; for ASVspoof 5,
counts that agree in several public code bases; for the bona fide trials of ASVspoof 2021,
re-evaluations published with code.
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
    "in-the-wild": {"": Published(31_779, 19_963)},
}
"""The numbers of trials by corpus and subset, '' for everything, where rooms besides that of the
corpora need them; all others are in `asdf.corpora`."""
