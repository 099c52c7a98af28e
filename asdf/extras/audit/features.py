"""Features of an audit: their meaning, and advice if they reveal labels.

Invariant: a feature does not require understanding speech. Each is one number or word per
recording, so a detector that uses it alone shows how much of the task it solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["time", "level", "spectrum", "file", "name", "speaker"]


@dataclass(frozen=True)
class Feature:
    """A feature of recordings.

    Attributes:
        key: Key in results.
        name: Display name.
        kind: Subject of the feature, such as the file name, which a network cannot hear.
        advice: Advice on how to prevent the shortcut.
        settings: Lines of a config that follow the advice; '' if there are none.
        unit: Unit of its numbers; '' for words and plain numbers.
        is_word: Whether values are words.
        by_recording: Whether its detector also learns from recordings of the same speakers, because
            other speakers have none of its values.
    """

    key: str
    name: str
    kind: Kind
    advice: str
    settings: str = ""
    unit: str = ""
    is_word: bool = False
    by_recording: bool = False

    @property
    def is_heard(self) -> bool:
        """Whether a network can hear it, which it cannot for names and tags."""
        return self.kind != "name"


_TRIM = "Trim the silence around speech in all sets."
_TRIM_SETTINGS = "sad.mode = 'endpoint'"
_LEVEL = "Match the loudness of both classes, or scale every waveform."
_LEVEL_SETTINGS = "front_end.normalize_waveforms = True"
_RECODE = (
    "Bring both classes through the same chain: the same sampling rate, codec and number format."
)
_CODEC_SETTINGS = "augmentation.chain = ('codec', 'bandwidth')"
_RENAME = (
    "No network hears names. Give both classes one scheme of names, in mixed order, if programs "
    "or people see them."
)

FEATURES = {
    feature.key: feature
    for feature in (
        Feature(
            "duration",
            "duration",
            "time",
            "Cut clips of one length, or balance the lengths of both classes.",
            "network.clip_position = 'random'",
            "s",
        ),
        Feature("leading_silence", "leading silence", "time", _TRIM, _TRIM_SETTINGS, "s"),
        Feature("trailing_silence", "trailing silence", "time", _TRIM, _TRIM_SETTINGS, "s"),
        Feature(
            "pauses",
            "share of pauses",
            "time",
            "Cut the silence between words, or balance it.",
            "sad.mode = 'on'",
        ),
        Feature("level", "level of speech", "level", _LEVEL, _LEVEL_SETTINGS, "dB"),
        Feature("peak", "peak level", "level", _LEVEL, _LEVEL_SETTINGS, "dB"),
        Feature(
            "noise_floor",
            "noise floor below speech",
            "level",
            "Add noise to both classes, or record both in the same rooms.",
            "augmentation.chain = ('noise',)",
            "dB",
        ),
        Feature(
            "clipping",
            "share of clipped samples",
            "level",
            "Take recordings of lower gain, or clip both classes alike.",
        ),
        Feature(
            "offset", "DC offset", "level", "Subtract the mean of each recording.", _LEVEL_SETTINGS
        ),
        Feature(
            "zeros",
            "share of digital silence",
            "level",
            "Add noise of the last bit to both classes, or trim the silence.",
            _TRIM_SETTINGS,
        ),
        Feature("bandwidth", "bandwidth", "spectrum", _RECODE, _CODEC_SETTINGS, "Hz"),
        Feature("holes", "spectral holes", "spectrum", _RECODE, _CODEC_SETTINGS),
        Feature(
            "rate_history",
            "sampling rate that the spectrum ends at",
            "spectrum",
            _RECODE,
            _CODEC_SETTINGS,
            is_word=True,
        ),
        Feature("sample_rate", "sampling rate of the file", "file", _RECODE, is_word=True),
        Feature("format", "format of the file", "file", _RECODE, is_word=True),
        Feature("channels", "channels", "file", _RECODE, is_word=True),
        Feature("bits", "bits in use", "file", _RECODE, is_word=True),
        Feature("byte_rate", "bytes per second", "file", _RECODE, "", "B/s"),
        Feature(
            "tags", "tags of the file", "name", "Write the files again without tags.", is_word=True
        ),
        Feature("folder", "folder", "name", _RENAME, is_word=True, by_recording=True),
        Feature("pattern", "pattern of the name", "name", _RENAME, is_word=True, by_recording=True),
        Feature("number", "number in the name", "name", _RENAME, by_recording=True),
        Feature("order", "position in the list", "name", _RENAME, by_recording=True),
        Feature(
            "speaker",
            "speaker",
            "speaker",
            "Record genuine speech of the voices that are spoofed, or leave speakers out "
            "(recipe.leave_out_speakers).",
            is_word=True,
            by_recording=True,
        ),
        Feature(
            "text",
            "text",
            "speaker",
            "Let both classes say the same texts.",
            is_word=True,
            by_recording=True,
        ),
    )
}

# Columns that restate the label, or state the part of a corpus that a trial belongs to.
NOT_FEATURES = frozenset({"attack", "label", "key", "split", "subset", "spoofed_s", "source"})


def column_feature(name: str) -> Feature:
    """Return the feature of another column of a list, such as the codec or the language."""
    known = FEATURES.get(name)
    if known is not None:
        return known
    advice = f"Balance the values of {name} over both classes."
    return Feature(name, name, "speaker", advice, is_word=True, by_recording=True)


ALL_TOGETHER = Feature(
    "all",
    "all that a network hears",
    "time",
    "Record, level and code both classes alike: together, features distinguish them.",
)
