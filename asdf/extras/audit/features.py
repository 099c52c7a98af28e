"""Features of an audit: their meaning, and advice if they reveal labels.

Invariant: a feature does not require understanding speech. Each is one number or word per
recording, so a detector that uses it alone shows how much of the task it solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Feature:
    """A feature of recordings.

    Attributes:
        key: Key in results.
        name: Display name.
        advice: Advice on how to prevent the shortcut.
        settings: Lines of a config that follow the advice; '' if there are none.
        unit: Unit of its numbers; '' for words and plain numbers.
        is_word: Whether values are words.
        by_recording: Whether its detector also learns from recordings of the same speakers, because
            other speakers have none of its values.
        is_heard: Whether a network can hear it, which it cannot for names and tags.
    """

    key: str
    name: str
    advice: str
    settings: str = ""
    unit: str = ""
    is_word: bool = False
    by_recording: bool = False
    is_heard: bool = True


# Advice, with the lines of a config that follow it.
_CUT = (
    "Cut clips of one length, or balance the lengths of both classes.",
    "network.clip_position = 'random'",
)
_TRIM = ("Trim the silence around speech in all sets.", "sad.mode = 'endpoint'")
_PAUSES = ("Cut the silence between words, or balance it.", "sad.mode = 'on'")
_NORMALISE = "front_end.normalize_waveforms = True"
_LEVEL = ("Match the loudness of both classes, or scale every waveform.", _NORMALISE)
_NOISE = (
    "Add noise to both classes, or record both in the same rooms.",
    "augmentation.chain = ('noise',)",
)
_CLIPPING = "Take recordings of lower gain, or clip both classes alike."
_ZEROS = ("Add noise of the last bit to both classes, or trim the silence.", _TRIM[1])
_RECODE = (
    "Bring both classes through the same chain: the same sampling rate, codec and number format."
)
_CODEC = (_RECODE, "augmentation.chain = ('codec', 'bandwidth')")
_RENAME = (
    "No network hears names. Give both classes one scheme of names, in mixed order, if programs "
    "or people see them."
)
_SPEAKER = (
    "Record genuine speech of the voices that are spoofed, or leave speakers out "
    "(recipe.leave_out_speakers)."
)
_TEXT = "Let both classes say the same texts."
# Whether other speakers have values of a feature, and whether a network hears it.
_OF_SPEAKERS: dict[str, Any] = {"is_word": True, "by_recording": True}
_OF_NAMES: dict[str, Any] = {"by_recording": True, "is_heard": False}

_ROWS = (
    Feature("duration", "duration", *_CUT, "s"),
    Feature("leading_silence", "leading silence", *_TRIM, "s"),
    Feature("trailing_silence", "trailing silence", *_TRIM, "s"),
    Feature("pauses", "share of pauses", *_PAUSES),
    Feature("level", "level of speech", *_LEVEL, "dB"),
    Feature("peak", "peak level", *_LEVEL, "dB"),
    Feature("noise_floor", "noise floor below speech", *_NOISE, "dB"),
    Feature("clipping", "share of clipped samples", _CLIPPING),
    Feature("offset", "DC offset", "Subtract the mean of each recording.", _NORMALISE),
    Feature("zeros", "share of digital silence", *_ZEROS),
    Feature("bandwidth", "bandwidth", *_CODEC, "Hz"),
    Feature("holes", "spectral holes", *_CODEC),
    Feature("rate_history", "sampling rate that the spectrum ends at", *_CODEC, is_word=True),
    Feature("sample_rate", "sampling rate of the file", _RECODE, is_word=True),
    Feature("format", "format of the file", _RECODE, is_word=True),
    Feature("channels", "channels", _RECODE, is_word=True),
    Feature("bits", "bits in use", _RECODE, is_word=True),
    Feature("byte_rate", "bytes per second", _RECODE, unit="B/s"),
    Feature(
        "tags",
        "tags of the file",
        "Write the files again without tags.",
        is_word=True,
        is_heard=False,
    ),
    Feature("folder", "folder", _RENAME, is_word=True, **_OF_NAMES),
    Feature("pattern", "pattern of the name", _RENAME, is_word=True, **_OF_NAMES),
    Feature("number", "number in the name", _RENAME, **_OF_NAMES),
    Feature("order", "position in the list", _RENAME, **_OF_NAMES),
    Feature("speaker", "speaker", _SPEAKER, **_OF_SPEAKERS),
    Feature("text", "text", _TEXT, **_OF_SPEAKERS),
)
FEATURES = {feature.key: feature for feature in _ROWS}

# Columns that restate the label, or state the part of a corpus that a trial belongs to.
NOT_FEATURES = frozenset({"attack", "label", "key", "split", "subset", "spoofed_s", "source"})


def column_feature(name: str) -> Feature:
    """Return the feature of another column of a list, such as the codec or the language."""
    advice = f"Balance the values of {name} over both classes."
    return FEATURES.get(name) or Feature(name, name, advice, **_OF_SPEAKERS)


ALL_TOGETHER = Feature(
    "all",
    "all that a network hears",
    "Record, level and code both classes alike: together, features distinguish them.",
)
