"""Score files of others: of the ASVspoof challenges, of published systems and of ASV systems.

Invariant: every reader ends in the same checks as ASDF's own format, and labels never come from a guess: where a file
has none, the caller's protocol gives them, and it must know exactly the utterances that were scored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.trials.lines import numbered_lines
from asdf.trials.score_file import Scores, checked, parse_score, read_scores

KEYS = {"bonafide": 1, "bona-fide": 1, "spoof": 0}


def read_any_scores(
    path: str | os.PathLike[str],
    labels: Mapping[str, int] | None = None,
    *,
    ignore_others: bool = False,
) -> Scores:
    """Read a score file whose first line tells its format.

    `PATH 0|1 SCORE` is ASDF's, `UTT ATTACK bonafide|spoof SCORE` that of `read_keyed_scores`, anything else that of
    `read_unlabelled_scores`, which alone needs and reads `labels`.

    Raises:
        AsdfError: as the readers of the formats; or there are no labels, neither in the file nor given.
    """
    kind, first = score_format(path, None if labels is None else labels.__contains__)
    if kind == "asdf":
        return read_scores(path)
    if kind == "keyed":
        return read_keyed_scores(path)
    if labels is None:
        raise AsdfError(
            f"{path}, line 1: there is no label in '{first}'. Give the protocol of the set too, "
            "or a file of lines 'relative/path.flac 1 <score>'."
        )
    return read_unlabelled_scores(path, labels, ignore_others=ignore_others)


def score_format(
    path: str | os.PathLike[str], is_trial: Callable[[str], bool] | None = None
) -> tuple[Literal["asdf", "keyed", "two columns"], str]:
    """The format of a score file and its first line; an empty file is one of ASDF's.

    `is_trial` tells whether the protocol has an utterance. It decides about lines such as `take 1 0.5`, which may be
    the score of `take 1`, or that of `take` with its label.
    """
    _, first = next(iter(numbered_lines(path)), (0, ""))
    columns = first.split()
    utterance = first.rsplit(None, 1)[0] if columns else ""
    # A name may hold a TAB too: `a TAB b.flac 1 0.5` has three columns.
    tabbed = first.count("\t") == 1 and len(first.split("\t")[1].split()) == 1
    if tabbed or (is_trial is not None and is_trial(utterance)):
        return "two columns", first
    if not columns or (len(columns) >= 3 and columns[-2] in ("0", "1")):
        return "asdf", first
    if len(columns) >= 4 and columns[-2] in KEYS:
        return "keyed", first
    return "two columns", first


def read_keyed_scores(path: str | os.PathLike[str], *, both_classes: bool = True) -> Scores:
    """Read `UTT ATTACK KEY SCORE`, KEY bonafide or spoof, as the systems of ASVspoof 2019 write it.

    Raises:
        AsdfError: as `read_scores`.
    """
    lines, ids, attacks, labels, scores = [], [], [], [], []
    for line, text in numbered_lines(path):
        columns = text.rsplit(None, 3)
        if len(columns) != 4 or columns[2] not in KEYS:
            raise AsdfError(
                f"{path}, line {line}: expected 'UTT ATTACK bonafide|spoof SCORE', found '{text}'."
            )
        lines.append(line)
        ids.append(columns[0])
        attacks.append(columns[1])
        labels.append(KEYS[columns[2]])
        scores.append(parse_score(columns[3], path, line))
    found = Scores(ids, np.array(labels, np.int8), np.array(scores), columns={"attack": attacks})
    return checked(path, lines, found, both_classes=both_classes)


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
    lines, ids, scores = _two_columns(path)
    known = [i for i, utterance in enumerate(ids) if utterance in labels]
    if len(known) < len(ids) and not ignore_others:
        _disagree(
            path, "scored utterances are not in the protocol", [u for u in ids if u not in labels]
        )
    scored = set(ids)
    if absent := [utterance for utterance in labels if utterance not in scored]:
        _disagree(path, "utterances of the protocol have no score", absent)
    return checked(
        path,
        [lines[i] for i in known],
        Scores(
            [ids[i] for i in known],
            np.array([labels[ids[i]] for i in known], np.int8),
            np.array([scores[i] for i in known]),
        ),
    )


def read_two_columns(path: str | os.PathLike[str]) -> tuple[list[str], npt.NDArray[np.float64]]:
    """The utterances and scores of a file as `read_unlabelled_scores` reads it, without labels.

    Raises:
        AsdfError: as `read_scores`, but for the classes.
    """
    lines, ids, scores = _two_columns(path)
    # There is no class to look at yet; all else is checked here, where the lines are known.
    found = Scores(ids, np.zeros(len(ids), np.int8), np.array(scores))
    return ids, checked(path, lines, found, both_classes=False).scores


def _two_columns(path: str | os.PathLike[str]) -> tuple[list[int], list[str], list[float]]:
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
    return lines, ids, scores


def _disagree(path: str | os.PathLike[str], what: str, utterances: list[str]) -> None:
    named = ", ".join(repr(utterance) for utterance in utterances[:5])
    raise AsdfError(
        f"{path}: {len(utterances)} {what}, the first ones: {named}. Is it the protocol of this set and subset?"
    )
