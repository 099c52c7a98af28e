"""Scores of a speaker verification (ASV) system, for tandem metrics.

Invariant: each score is of a target, nontarget or spoof trial, according to its file or a file of
keys. As in the package of ASVspoof 2021, the two files are joined line by line; files with
different numbers of lines are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.text import AnyPath
from asdf.trials.score_file import parse_score
from asdf.trials.text_lines import numbered_lines

_KEYS = ("target", "nontarget", "spoof")


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


def read_asv_scores(
    path: AnyPath, keys: AnyPath | None = None, subset: str | None = None
) -> AsvScores:
    """Read the organisers' ASV scores, `SOURCE KEY SCORE`, KEY target, nontarget or spoof.

    Args:
        keys: File of keys for scores without keys, as in ASVspoof 2021. The key of a score is in
            the same line of this file: the sixth of eight columns, the last of which is the subset.
        subset: Subset in `keys` to read; None for all.

    Raises:
        AsdfError: a line is malformed or a score is not finite, with file and line; the two files
            have different numbers of lines; or a key never occurs.

    Examples:
        >>> from asdf.evaluation import read_asv_scores
        >>> read_asv_scores("asv.txt").target
        array([2.5, 3. ])
    """
    # Read everything before joining keys, since a missing or extra line would shift all keys.
    lines = list(numbered_lines(path))
    stated = None if keys is None else _read_keys(keys, path, len(lines))
    scores: dict[str, list[float]] = {key: [] for key in _KEYS}
    for index, (number, line) in enumerate(lines):
        cells = line.rsplit(None, 2)
        # Without a file of keys the subset of a trial is unknown, so all trials are taken.
        key, part = cells[1] if len(cells) == 3 else "", subset
        if stated is not None:
            key, part = stated[index]
        if len(cells) != 3 or key not in scores:
            need = " Scores without keys, such as those of ASVspoof 2021, need --asv-keys."
            hint = need if stated is None else ""
            raise AsdfError(
                f"{path}, line {number}: expected 'SOURCE target|nontarget|spoof SCORE', found "
                f"'{line}'.{hint}"
            )
        score = parse_score(cells[2], path, number)
        # The metrics would refuse it too, but only this reader knows its line.
        if not np.isfinite(score):
            raise AsdfError(f"{path}, line {number}: the score '{cells[2]}' is not finite.")
        if subset in (None, part):
            scores[key].append(score)
    chosen = f" of subset {subset}" if subset and stated is not None else ""
    for name, values in scores.items():
        if not values:
            raise AsdfError(
                f"{path}: no {name} trials{chosen} found. Tandem metrics need target, "
                "nontarget and spoof trials."
            )
    return AsvScores(*(np.array(scores[key]) for key in _KEYS))


def _read_keys(path: AnyPath, scores: AnyPath, count: int) -> list[tuple[str, str]]:
    """Read the ASV protocol of ASVspoof 2021, key and subset for each of the `count` scores."""
    keys = []
    for number, line in numbered_lines(path):
        cells = line.split()
        if len(cells) != 8 or cells[5] not in _KEYS:
            raise AsdfError(
                f"{path}, line {number}: expected eight columns, the sixth of them target, "
                f"nontarget or spoof, found '{line[:120]}'."
            )
        keys.append((cells[5], cells[7]))
    if len(keys) != count:
        raise AsdfError(
            f"{scores} has {count} scores, but {path} has {len(keys)} keys: both must list the "
            "same trials, line by line."
        )
    return keys
