"""Score files of others: of the ASVspoof challenges, of published systems and of ASV systems.

Invariant: every reader ends in the same checks as ASDF's own format, and labels never come from a guess: where a file
has none, the caller's protocol gives them, and it must know exactly the utterances that were scored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.evaluation.lines import numbered_lines
from asdf.evaluation.score_file import Scores, checked, parse_score, read_scores

KEYS = {"bonafide": 1, "bona-fide": 1, "spoof": 0}


@dataclass(frozen=True, eq=False)
class AsvScores:
    """Scores of a speaker verification system: of target, nontarget and spoof trials."""

    target: npt.NDArray[np.float64]
    nontarget: npt.NDArray[np.float64]
    spoof: npt.NDArray[np.float64]


def read_any_scores(
    path: str | os.PathLike[str], labels: Mapping[str, int] | None = None, *, ignore_others: bool = False
) -> Scores:
    """Read a score file whose first line tells its format.

    `PATH 0|1 SCORE` is ASDF's, `UTT ATTACK bonafide|spoof SCORE` that of `read_keyed_scores`, anything else that of
    `read_unlabelled_scores`, which alone needs and reads `labels`.

    Raises:
        AsdfError: as the readers of the formats; or there are no labels, neither in the file nor given.
    """
    _, first = next(iter(numbered_lines(path)), (0, ""))
    columns = first.split()
    if not columns or (len(columns) >= 3 and columns[-2] in ("0", "1")):
        return read_scores(path)
    if len(columns) >= 4 and columns[-2] in KEYS:
        return read_keyed_scores(path)
    if labels is None:
        raise AsdfError(
            f"{path}, line 1: there is no label in '{first}'. Give the protocol of the set too, "
            "or a file of lines 'relative/path.flac 1 <score>'."
        )
    return read_unlabelled_scores(path, labels, ignore_others=ignore_others)


def read_keyed_scores(path: str | os.PathLike[str]) -> Scores:
    """Read `UTT ATTACK KEY SCORE`, KEY bonafide or spoof, as the systems of ASVspoof 2019 write it.

    Raises:
        AsdfError: as `read_scores`.
    """
    lines, ids, attacks, labels, scores = [], [], [], [], []
    for line, text in numbered_lines(path):
        columns = text.rsplit(None, 3)
        if len(columns) != 4 or columns[2] not in KEYS:
            raise AsdfError(f"{path}, line {line}: expected 'UTT ATTACK bonafide|spoof SCORE', found '{text}'.")
        lines.append(line)
        ids.append(columns[0])
        attacks.append(columns[1])
        labels.append(KEYS[columns[2]])
        scores.append(parse_score(columns[3], path, line))
    return checked(path, lines, Scores(ids, np.array(labels, np.int64), np.array(scores), attacks))


def read_unlabelled_scores(
    path: str | os.PathLike[str], labels: Mapping[str, int], *, ignore_others: bool = False
) -> Scores:
    """Read `UTT SCORE` (ASVspoof 2021) or the TAB file `filename cm-score` with its header (ASVspoof 5).

    `labels` is the protocol: utterance -> 1 (bona fide) or 0 (spoof). Every utterance of it must have a score. One
    that it does not know is an error, or left out with `ignore_others=True` (a 2021 file over all trials, say, where
    the protocol is that of subset eval: results over all trials are other numbers than the published ones).

    Raises:
        AsdfError: as `read_scores`; or file and protocol disagree about the utterances.
    """
    lines: list[int] = []
    ids: list[str] = []
    scores: list[float] = []
    for line, text in numbered_lines(path):
        columns = text.rsplit("\t" if "\t" in text else None, 1)
        if len(columns) != 2:
            raise AsdfError(f"{path}, line {line}: expected 'UTT SCORE', found '{text}'.")
        if not ids and columns[1].lower() in ("cm-score", "score"):
            continue
        lines.append(line)
        ids.append(columns[0].strip())
        scores.append(parse_score(columns[1], path, line))
    known = [i for i, utterance in enumerate(ids) if utterance in labels]
    if len(known) < len(ids) and not ignore_others:
        _disagree(path, "scored utterances are not in the protocol", [u for u in ids if u not in labels])
    scored = set(ids)
    if absent := [utterance for utterance in labels if utterance not in scored]:
        _disagree(path, "utterances of the protocol have no score", absent)
    return checked(
        path,
        [lines[i] for i in known],
        Scores(
            [ids[i] for i in known],
            np.array([labels[ids[i]] for i in known], np.int64),
            np.array([scores[i] for i in known]),
        ),
    )


def read_asv_scores(path: str | os.PathLike[str]) -> AsvScores:
    """Read the organisers' ASV scores, `SOURCE KEY SCORE`, KEY target, nontarget or spoof.

    Raises:
        AsdfError: names file and line of a malformed line or of a score that is not finite; or a key never occurs.
    """
    scores: dict[str, list[float]] = {"target": [], "nontarget": [], "spoof": []}
    for line, text in numbered_lines(path):
        columns = text.rsplit(None, 2)
        if len(columns) != 3 or columns[1] not in scores:
            raise AsdfError(f"{path}, line {line}: expected 'SOURCE target|nontarget|spoof SCORE', found '{text}'.")
        score = parse_score(columns[2], path, line)
        if not np.isfinite(score):
            raise AsdfError(f"{path}, line {line}: the score '{columns[2]}' is not finite.")
        scores[columns[1]].append(score)
    for key, values in scores.items():
        if not values:
            raise AsdfError(f"{path}: no {key} trial in it. Tandem metrics need target, nontarget and spoof trials.")
    return AsvScores(*(np.array(scores[key]) for key in ("target", "nontarget", "spoof")))


def _disagree(path: str | os.PathLike[str], what: str, utterances: list[str]) -> None:
    named = ", ".join(repr(utterance) for utterance in utterances[:5])
    raise AsdfError(
        f"{path}: {len(utterances)} {what}, the first ones: {named}. Is it the protocol of this set and subset?"
    )
