"""Scores of a speaker verification (ASV) system, which tandem metrics need.

Invariant: each score is that of a target, a nontarget or a spoof trial, as its file or its file of keys says; what the
package of ASVspoof 2021 joins line by line is joined so here, and refused where the two files do not have as many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.trials.lines import numbered_lines
from asdf.trials.score_file import parse_score


@dataclass(frozen=True, eq=False)
class AsvScores:
    """Scores of a speaker verification system: of target, nontarget and spoof trials."""

    target: npt.NDArray[np.float64]
    nontarget: npt.NDArray[np.float64]
    spoof: npt.NDArray[np.float64]


def read_asv_scores(
    path: str | os.PathLike[str],
    keys: str | os.PathLike[str] | None = None,
    subset: str | None = None,
) -> AsvScores:
    """Read the organisers' ASV scores, `SOURCE KEY SCORE`, KEY target, nontarget or spoof.

    Those of ASVspoof 2021 have no key; it stands in the same line of a file `keys`, of eight columns of which the sixth
    is the key and the last the subset, and `subset` chooses among them (None: all).

    Raises:
        AsdfError: names file and line of a malformed line or of a score that is not finite; the two files have
            different numbers of lines; or a key never occurs.
    """
    scores: dict[str, list[float]] = {"target": [], "nontarget": [], "spoof": []}
    told = None if keys is None else list(_asv_keys(keys))
    lines = list(numbered_lines(path))
    if told is not None and len(told) != len(lines):
        raise AsdfError(
            f"{path} has {len(lines)} scores, {keys} {len(told)} keys: they must be of the same trials, line by line."
        )
    for index, (line, text) in enumerate(lines):
        columns = text.rsplit(None, 2)
        key, of_subset = (
            told[index] if told is not None else (columns[-2] if len(columns) > 2 else "", subset)
        )
        if len(columns) != 3 or key not in scores:
            hint = (
                " Scores without keys, as those of ASVspoof 2021, need --asv-keys."
                if told is None
                else ""
            )
            raise AsdfError(
                f"{path}, line {line}: expected 'SOURCE target|nontarget|spoof SCORE', found '{text}'.{hint}"
            )
        score = parse_score(columns[2], path, line)
        if not np.isfinite(score):
            raise AsdfError(f"{path}, line {line}: the score '{columns[2]}' is not finite.")
        if subset in (None, of_subset):
            scores[key].append(score)
    for key, values in scores.items():
        if not values:
            part = f" of subset {subset}" if subset and told is not None else ""
            raise AsdfError(
                f"{path}: no {key} trial{part} in it. Tandem metrics need target, nontarget and spoof trials."
            )
    return AsvScores(*(np.array(scores[key]) for key in ("target", "nontarget", "spoof")))


def _asv_keys(path: str | os.PathLike[str]) -> Iterator[tuple[str, str]]:
    """Key and subset of each line of the ASV protocol of ASVspoof 2021."""
    for line, text in numbered_lines(path):
        columns = text.split()
        if len(columns) != 8 or columns[5] not in ("target", "nontarget", "spoof"):
            raise AsdfError(
                f"{path}, line {line}: expected eight columns, the sixth of them target, nontarget or spoof, found "
                f"'{text[:120]}'."
            )
        yield columns[5], columns[7]
