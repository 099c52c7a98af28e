"""Words for the two classes in label files, tables and folders.

Invariant: a word that means neither class, or may mean either, has no label. This includes a bare 1
or 0: in half of the field's data sets 1 is bona fide, in the other half spoof.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from asdf.errors import AsdfError

_BONA_FIDE = (
    *("bonafide", "real", "genuine", "human", "original", "authentic", "natural", "live"),
    *("reals", "humans", "originals"),
)
_SPOOF = (
    *("spoof", "spoofed", "spoofing", "fake", "deepfake", "synthetic", "generated", "manipulated"),
    *("vocoded", "spoofs", "fakes", "deepfakes", "faked", "synthesized", "synthesised", "synth"),
    *("ai", "aigenerated", "machine", "artificial", "cloned", "clone", "clones", "tts", "vc"),
    *("converted", "replay", "replayed", "nonbonafide", "notreal", "notgenuine", "unreal"),
)
BONA_FIDE = frozenset(_BONA_FIDE)
SPOOF = frozenset(_SPOOF)
"""Words for the two classes, without spaces, hyphens and underscores."""

LABEL_NAMES = (
    *("label", "labels", "class", "key", "target", "truth", "groundtruth", "category", "type"),
    *("isfake", "isspoof", "isdeepfake", "issynthetic", "isgenerated", "fake", "spoof", "deepfake"),
    *("isreal", "isbonafide", "isgenuine", "real", "bonafide", "genuine", "authenticity"),
)
"""Usual names of columns of labels, the likeliest first; in lower case, without separators."""

# Words that mean yes in columns that ask a question.
_YES = frozenset(("1", "1.0", "true", "yes", "y", "t"))
_NO = frozenset(("0", "0.0", "false", "no", "n", "f"))
_SHOWN = 8
_SEPARATORS = re.compile(r"[\s_.-]+")


@dataclass(frozen=True)
class Columns:
    """The interpretation of the columns of a data set.

    Attributes:
        names: Name of a column in the data set, by our name: 'label', 'path', or any column of a
            trial list, as in {'label': 'is_fake', 'speaker': 'spk'}.
        bona_fide: Values of the label that mean bona fide, as words or numbers, separated by
            commas; '' if its words say so.
        classes: Names of the labels 0, 1 ..., if the data set lacks them.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    bona_fide: str = ""
    classes: tuple[str, ...] = ()

    @property
    def bona_fide_values(self) -> frozenset[str]:
        """The values that mean bona fide, in lower case; empty if words say so."""
        words = (word.strip().lower() for word in self.bona_fide.split(","))
        return frozenset(word for word in words if word)


def label_of(word: str) -> int | None:
    """Return 1 for a word that means bona fide, 0 for one that means spoof, None for others."""
    plain = plain_word(word)
    if plain in BONA_FIDE:
        return 1
    return 0 if plain in SPOOF else None


@lru_cache
def plain_word(word: str) -> str:
    """Return a word in lower case without spaces, hyphens, dots and underscores."""
    return _SEPARATORS.sub("", word.strip().lower())


def words_in(name: str) -> list[str]:
    """Return the words of a name such as `real_speech-2`, in lower case."""
    return [word for word in _SEPARATORS.split(name.strip().lower()) if word]


def labels_of_values(
    column: str,
    values: Sequence[str],
    where: str,
    bona_fide: Collection[str] = (),
    advice: str = "",
) -> list[int]:
    """Return the label of each value of a column.

    Args:
        column: Name of the column; in one that asks a question, such as 'is_fake', yes and no are
            labels.
        where: Name of the file for messages.
        bona_fide: Values that mean bona fide, all others meaning spoof; empty if words say so.
        advice: Sentence on how to specify the bona fide values; '' for a list.

    Raises:
        AsdfError: a value means neither class, or may mean either; the message lists all of them.
    """
    plain = [value.strip().lower() for value in values]
    counts = Counter(plain)
    if bona_fide:
        absent = set(bona_fide) - set(counts)
        if absent:
            raise AsdfError(
                f"{where}: {column} has no value {', '.join(sorted(absent))}, which was given as "
                f"bona fide. It has {_seen(counts)}."
            )
        return [int(value in bona_fide) for value in plain]
    meanings = {value: meaning_of(column, value) for value in counts}
    unknown = [value for value, meaning in meanings.items() if meaning is None]
    if unknown:
        # A comma in the value would separate two of them in --bona-fide.
        example = unknown[0] if unknown[0] and "," not in unknown[0] else "VALUE"
        reason = "means neither bona fide nor spoof by itself"
        if set(unknown) <= _YES | _NO:
            reason = (
                "may mean either class: in half of the field's sets 1 is bona fide, in the other "
                "half spoof"
            )
        advice = advice or (
            "Specify the values that are bona fide; all others are then spoofs: python -m asdf "
            f"lists FILE --bona-fide {example}, or Corpus(..., bona_fide={example!r}) in run.py"
        )
        raise AsdfError(
            f"{where}: {column} = {', '.join(map(repr, sorted(unknown)[:_SHOWN]))} {reason}. The "
            f"column has {_seen(counts)}. {advice}."
        )
    # Every value has a meaning here; the condition is for the type checker.
    return [meaning for value in plain if (meaning := meanings[value]) is not None]


def meaning_of(column: str, value: str) -> int | None:
    """Return the label that a value of a column means; None if it may mean either, or neither.

    A yes or no is a label in a column named by a class, such as `is_fake`.
    """
    value = value.strip().lower()
    # 'is_fake' and 'fake_label' ask for fake.
    words = [word for word in words_in(column) if word not in ("is", "label", "flag", "target")]
    asked = label_of("".join(words)) if words else None
    if asked is not None and value in _YES | _NO:
        return asked if value in _YES else 1 - asked
    return label_of(value)


def check_label(label: int, cells: Mapping[str, str], path: Path, line: int) -> None:
    """Refuse a line of a list that states another label in one of its columns.

    Args:
        cells: Values by name of their column.

    Raises:
        AsdfError: a column of labels means the other class.
    """
    for name, cell in cells.items():
        if plain_word(name) in LABEL_NAMES and meaning_of(name, cell) == 1 - label:
            raise AsdfError(
                f"{path}, line {line}: {name} = {cell!r}, but the label is "
                f"{'bona fide' if label else 'spoof'}. Remove or rename the wrong column, or name "
                "the right one: python -m asdf lists FILE --columns label=NAME, or "
                "Corpus(..., columns={'label': 'NAME'}) in run.py."
            )


def _seen(counts: Mapping[str, int]) -> str:
    """Return the values with their counts, most frequent first."""
    ordered = Counter(counts).most_common()
    shown = [f"{value!r} ({count:,})" for value, count in ordered[:_SHOWN]]
    rest = len(ordered) - _SHOWN
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


def are_labels(column: str, values: Iterable[str]) -> bool:
    """Whether each of some values means a class."""
    return all(meaning_of(column, value) is not None for value in values)
