"""Scores of a speaker verification (ASV) system, which tandem metrics need.

Invariant: each score is that of a target, a nontarget or a spoof trial, as its file or its file of
keys says; what the package of ASVspoof 2021 joins line by line is joined so here, and refused where
the two files have different numbers of lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.text import AnyPath
from asdf.trials.score_file import parse_score
from asdf.trials.text_lines import numbered_lines

_KEYS = ("target", "nontarget", "spoof")
_FilePath = AnyPath


@dataclass(frozen=True, eq=False)
class AsvScores:
    """Scores of a speaker verification system: of target, nontarget and spoof trials.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import AsvScores, asv_rates
        >>> asv = AsvScores(np.array([3.0, 2.0]), np.array([-1.0, 0.0]), np.array([2.5, 0.5]))
        >>> asv_rates(asv).spoof_false_alarm
        1.0
    """

    target: Floats
    nontarget: Floats
    spoof: Floats


@dataclass(frozen=True)
class _Key:
    """What a file of keys says of a trial; the subset is '' in files that have none."""

    key: str
    subset: str = ""


def read_asv_scores(
    path: _FilePath,
    keys: _FilePath | None = None,
    subset: str | None = None,
) -> AsvScores:
    """Read the organisers' ASV scores, `SOURCE KEY SCORE`, KEY target, nontarget or spoof.

    Args:
        keys: the file of keys of scores without them, those of ASVspoof 2021. The key of a score is
            in the same line of it: the sixth of eight columns, of which the last is the subset.
        subset: a subset in `keys`; None: all.

    Raises:
        AsdfError: names file and line of a malformed line or of a score that is not finite; the two
            files have different numbers of lines; or a key never occurs.

    Examples:
        >>> from asdf.evaluation import read_asv_scores
        >>> read_asv_scores("asv.txt").target
        array([2.5, 3. ])
    """
    # Whole before any key is joined: one line more or less would shift all keys after it.
    lines = list(numbered_lines(path))
    stated: Sequence[_Key] | None = None
    hint = " Scores without keys, as those of ASVspoof 2021, need --asv-keys."
    if keys is not None:
        hint = ""
        stated = _read_keys(keys)
        if len(stated) != len(lines):
            raise AsdfError(
                f"{path} has {len(lines)} scores, {keys} {len(stated)} keys: they must be of the "
                "same trials, line by line."
            )
    scores: dict[str, list[float]] = {key: [] for key in _KEYS}
    for index, (number, line) in enumerate(lines):
        cells = line.rsplit(None, 2)
        key = _Key(cells[1] if len(cells) == 3 else "")
        if stated is not None:
            key = stated[index]
        if len(cells) != 3 or key.key not in scores:
            raise AsdfError(
                f"{path}, line {number}: expected 'SOURCE target|nontarget|spoof SCORE', found "
                f"'{line}'.{hint}"
            )
        score = parse_score(cells[2], path, number)
        # The metrics would refuse it too, but only this reader knows its line.
        if not np.isfinite(score):
            raise AsdfError(f"{path}, line {number}: the score '{cells[2]}' is not finite.")
        # Without a file of keys nothing says which subset a trial is of: all are taken.
        if stated is None or subset in (None, key.subset):
            scores[key.key].append(score)
    part = f" of subset {subset}" if subset and stated is not None else ""
    for name, values in scores.items():
        if not values:
            raise AsdfError(
                f"{path}: no {name} trial{part} in it. Tandem metrics need target, nontarget and "
                "spoof trials."
            )
    return AsvScores(
        target=np.array(scores["target"]),
        nontarget=np.array(scores["nontarget"]),
        spoof=np.array(scores["spoof"]),
    )


def _read_keys(path: _FilePath) -> list[_Key]:
    """Read the ASV protocol of ASVspoof 2021."""
    keys = []
    for number, line in numbered_lines(path):
        cells = line.split()
        if len(cells) != 8 or cells[5] not in _KEYS:
            raise AsdfError(
                f"{path}, line {number}: expected eight columns, the sixth of them target, "
                f"nontarget or spoof, found '{line[:120]}'."
            )
        keys.append(_Key(key=cells[5], subset=cells[7]))
    return keys
