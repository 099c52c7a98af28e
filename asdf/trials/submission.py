"""Score files in the formats that the ASVspoof challenges and their evaluation packages take.

Invariant: what is written is read by the official package: bare names, each once, a score per line,
in the order of the protocol if there is one. Their files are split at white space (2019, 2021) or
TABs (5), and a name that this would tear apart is refused.

    asvspoof2019    UTT ATTACK KEY SCORE    `-` for the attack of bona fide; the package of 2019
    asvspoof2021    UTT SCORE               all trials of the set, whatever their subset; the
                                            packages of LA, DF and PA
    asvspoof5       filename TAB cm-score   with this header; track 1
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import quoted_and_more
from asdf.trials.score_file import Scores, score_texts
from asdf.trials.trial_list import TrialList, bare_name, values_at

FORMATS = ("asvspoof2019", "asvspoof2021", "asvspoof5")
# Between the two columns of the formats that have two.
_SEPARATORS = {"asvspoof2021": " ", "asvspoof5": "\t"}
_SHOWN = 5


def write_submission(
    path: str | os.PathLike[str], kind: str, scores: Scores, trials: TrialList | None = None
) -> None:
    """Write the scores in one of the `FORMATS`, atomically.

    Args:
        scores: with attacks for asvspoof2019.
        trials: the protocol whose order is taken; None: that of the scores.

    Raises:
        AsdfError: two trials have the same bare name, a name cannot stand in the file, or attacks
            are not known.
    """
    names = [bare_name(utterance) for utterance in scores.ids]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    _refuse(path, repeated, "names stand for several trials without their folders")
    torn = [name for name in names if _is_torn(name, kind)]
    _refuse(path, torn, f"names cannot stand in a file of {kind}")
    lines = _format_lines(kind, names, scores)
    if trials is not None:
        indices = map(trials.index_of, scores.ids)
        # As floats: the None of a trial that the protocol lacks becomes NaN, which is sorted last.
        positions = np.array(list(indices), float)
        lines = values_at(lines, np.argsort(positions, kind="stable"))
    if kind == "asvspoof5":
        lines.insert(0, "filename\tcm-score\n")
    with atomic_write(path) as file:
        file.writelines(lines)


def _format_lines(kind: str, names: Sequence[str], scores: Scores) -> list[str]:
    """Return the line of each trial, in the order of the scores."""
    texts = list(score_texts(scores.scores))
    if kind in _SEPARATORS:
        separator = _SEPARATORS[kind]
        pairs = zip(names, texts, strict=True)
        return [f"{name}{separator}{text}\n" for name, text in pairs]
    if kind != "asvspoof2019":
        raise ValueError(f"{kind!r} is none of {FORMATS}")
    lines = []
    attacks = _attacks(scores)
    for index, label in enumerate(scores.labels.tolist()):
        key = "bonafide" if label else "spoof"
        lines.append(f"{names[index]} {attacks[index]} {key} {texts[index]}\n")
    return lines


def _attacks(scores: Scores) -> list[str]:
    """Return one word per trial, `-` for bona fide."""
    of_scores = scores.attacks or [""] * len(scores)
    attacks = []
    for label, attack in zip(scores.labels.tolist(), of_scores, strict=True):
        word = "-" if label else attack
        if len(word.split()) != 1:
            raise AsdfError(
                "the format of ASVspoof 2019 names the attack of every spoof in one word, and "
                "neither the score file nor the protocol has them. Give the protocol of the set."
            )
        attacks.append(word)
    return attacks


def _is_torn(name: str, kind: str) -> bool:
    """Whether a reader of the format would split this name."""
    # Only TABs separate its columns, so a name may hold spaces.
    if kind == "asvspoof5":
        return not name or any(separator in name for separator in "\t\n\r")
    return len(name.split()) != 1


def _refuse(path: str | os.PathLike[str], names: Sequence[str], what: str) -> None:
    if names:
        raise AsdfError(
            f"cannot write {path}: {len(names)} {what}: {quoted_and_more(names, _SHOWN)}. Rename "
            "these utterances."
        )
