"""Score files in the formats of challenges and their evaluation packages.

Invariant: official packages can read the output: each trial of the list once, with a finite score
or a decision, in the order of the list if there is one. Files are split at white space, TABs or
commas, and a name that this would split is refused.

The submission formats of challenges: the layout of each file, and its source.

Invariant: a format is included only if its layout is stated in public text or code, which `source`
names; for others, the documents say that it is unknown.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath, count_of, quoted_and_more, read_number
from asdf.trials.score_file import Scores, score_texts
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import TrialList, bare_name, values_at


@dataclass(frozen=True)
class SubmissionFormat:
    """The layout of a file.

    Attributes:
        lines: Form of a line.
        purpose: Challenge, track or package that takes it.
        source: Publication or code that states the layout.
        header: First line; '' for none.
        separator: Separator of the columns.
        names: Form of names: 'bare' without folder and suffix, 'file' without folder, 'whole' as in
            the list.
        member: Name of the file in the submitted zip; '' if it is not stated.
        decides: Whether it has a class instead of a score, so that it needs a threshold.
    """

    lines: str
    purpose: str
    source: str
    header: str = ""
    separator: str = " "
    names: Literal["bare", "file", "whole"] = "bare"
    member: str = ""
    decides: bool = False


SUBMISSION_FORMATS = {
    "asvspoof2019": SubmissionFormat(
        lines="UTT ATTACK KEY SCORE",
        purpose="the package of ASVspoof 2019; needs attacks and labels",
        source="tDCF_python of asvspoof.org",
    ),
    "asvspoof2021": SubmissionFormat(
        lines="UTT SCORE",
        purpose="ASVspoof 2021 LA, DF, PA and their package; no --subset",
        source="eval-package of github.com/asvspoof-challenge/2021",
    ),
    "asvspoof5": SubmissionFormat(
        lines="filename TAB cm-score",
        purpose="ASVspoof 5, track 1, and its package",
        source="evaluation-package of github.com/asvspoof-challenge/asvspoof5",
        header="filename\tcm-score",
        separator="\t",
        member="score.tsv",
    ),
    "ctrsvdd": SubmissionFormat(
        lines="UTT SCORE",
        purpose="SVDD 2024, track CtrSVDD; the file is called TEAM_TRIAL.txt",
        source="codabench.org/competitions/2178",
    ),
    "at-add": SubmissionFormat(
        lines="name,predict; real or fake",
        purpose="AT-ADD 2026, tracks 1 and 2; needs a threshold",
        source="github.com/xieyuankun/AT-ADD-Baseline",
        header="name,predict",
        separator=",",
        names="file",
        decides=True,
    ),
    "arena": SubmissionFormat(
        lines="UTT SCORE",
        purpose="Speech Anti-Spoofing Arena, scores.txt of a set",
        source="documents of speech-spoof-bench",
        names="whole",
    ),
    "speech-df-arena": SubmissionFormat(
        lines="file_name SCORE",
        purpose="score files of the Speech DF Arena toolkit",
        source="github.com/Speech-Arena/speech_df_arena",
        names="whole",
    ),
}
FORMATS = tuple(SUBMISSION_FORMATS)


def formats_table() -> str:
    """Return the formats as lines of text, for help."""
    width = max(map(len, FORMATS))
    return "\n".join(
        f"  {name:<{width}}  '{layout.lines}': {layout.purpose}"
        for name, layout in SUBMISSION_FORMATS.items()
    )


_SHOWN = 5
# The earliest date in a zip, so that equal scores give equal bytes.
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def write_submission(
    path: AnyPath,
    kind: str,
    scores: Scores,
    trials: TrialList | None = None,
    threshold: float | None = None,
) -> None:
    """Write the scores in one of the `FORMATS`, atomically; a zip where the path ends in .zip.

    Args:
        scores: Scores, with attacks for asvspoof2019.
        trials: Protocol that determines order and names; None to use those of the scores.
        threshold: Lowest score that is bona fide, for formats of decisions.

    Raises:
        AsdfError: two trials have the same name, a name cannot be written to the file, attacks are
            unknown, a threshold is missing, or the format has no zip.
    """
    layout = SUBMISSION_FORMATS[kind]
    ids: Sequence[str] = scores.ids
    if trials is not None:
        # As floats: the None of a trial missing from the protocol becomes NaN, which is sorted
        # last.
        positions = np.array(list(map(trials.index_of, scores.ids)), float)
        order = np.argsort(positions, kind="stable")
        scores = scores.select(order)
        listed = positions[order][~np.isnan(positions[order])].astype(int)
        ids = [*values_at(trials.ids, listed), *scores.ids[len(listed) :]]
    names = [_name_in_file(utterance, layout) for utterance in ids]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    _refuse(path, repeated, "names refer to several trials without their folders")
    # With TABs or commas as separators, a name may contain spaces.
    torn_by = re.compile(r"\s" if layout.separator == " " else f'[{layout.separator}\n\r"]')
    torn = [name for name in names if not name or torn_by.search(name)]
    _refuse(path, torn, f"names cannot be written to a file of {kind}")
    values = list(score_texts(scores.scores))
    if layout.decides:
        if threshold is None:
            raise AsdfError(
                f"the format {kind} needs decisions: name the threshold at and above which a trial "
                "is real."
            )
        values = ["real" if score >= threshold else "fake" for score in scores.scores.tolist()]
    cells = [names, values]
    if kind == "asvspoof2019":
        of_scores = scores.attacks or [""] * len(scores)
        labels = scores.labels.tolist()
        attacks = ["-" if label else word for label, word in zip(labels, of_scores, strict=True)]
        if any(len(attack.split()) != 1 for attack in attacks):
            raise AsdfError(
                "the format of ASVspoof 2019 names the attack of every spoof in one word. Give the "
                "protocol of the set, which has them."
            )
        cells[1:1] = [attacks, ["bonafide" if label else "spoof" for label in labels]]
    lines = [layout.separator.join(row) + "\n" for row in zip(*cells, strict=True)]
    if layout.header:
        lines.insert(0, f"{layout.header}\n")
    write_text_or_zip(path, lines, layout.member, kind)


def write_text_or_zip(path: AnyPath, lines: Iterable[str], member: str, kind: str) -> None:
    """Write lines atomically, or as the only member of a zip if the path ends in .zip.

    Args:
        member: Name in the zip; '' if the challenge states none.
        kind: Name of the format, for messages.

    Raises:
        AsdfError: a zip is requested for a format without one.
    """
    if Path(path).suffix.lower() != ".zip":
        with atomic_write(path) as file:
            file.writelines(lines)
        return
    if not member:
        raise AsdfError(
            f"cannot write {path}: the contents of a zip of {kind} are not known. Write the file "
            "without .zip, and zip it as the challenge requires."
        )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        entry = zipfile.ZipInfo(member, _ZIP_DATE)
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, "".join(lines))
    with atomic_write(path, "wb") as binary:
        binary.write(content.getvalue())


def _name_in_file(utterance: str, layout: SubmissionFormat) -> str:
    """Return the name of an utterance in a format."""
    if layout.names == "whole":
        return utterance
    if layout.names == "file":
        return utterance.rsplit("/", 1)[-1]
    return bare_name(utterance)


def check_submission(path: AnyPath, kind: str, trials: Sequence[str]) -> int:
    """Check a submission file against the list of trials; return its number of lines.

    Args:
        kind: Name of one of the `FORMATS`.
        trials: Utterances of the challenge's list.

    Raises:
        AsdfError: something is wrong, with file and line of the first mistake; or trials are
            missing, repeated or of another list, with their number.
    """
    layout = SUBMISSION_FORMATS[kind]
    wanted = {_name_in_file(utterance, layout) for utterance in trials}
    lines = numbered_lines(path, "\r\n")
    if layout.header:
        _, first = next(lines, (1, ""))
        if first != layout.header:
            raise AsdfError(f"{path}, line 1: expected {layout.header!r}, found {first[:80]!r}.")
    seen: set[str] = set()
    for number, line in lines:
        name, _, value = line.rpartition(layout.separator)
        is_sound = value in ("real", "fake") if layout.decides else _is_finite(value)
        if kind == "asvspoof2019":
            name, *between = name.split(layout.separator)
            is_sound &= len(between) == 2 and between[1] in ("bonafide", "spoof")
        if not name or not is_sound:
            expected = "real or fake" if layout.decides else "a finite number"
            raise AsdfError(
                f"{path}, line {number}: expected '{layout.lines}', the last column {expected}, "
                f"found {line[:120]!r}."
            )
        if name in seen:
            raise AsdfError(f"{path}, line {number}: {name!r} is repeated.")
        seen.add(name)
    missing = sorted(wanted - seen)
    others = sorted(seen - wanted)
    if missing or others:
        raise AsdfError(
            f"{path} lacks {len(missing)} of {len(wanted)} trials "
            f"({quoted_and_more(missing, _SHOWN)}) and has {count_of(len(others), 'other')} "
            f"({quoted_and_more(others, _SHOWN)}). Score the challenge's list, all of it."
        )
    return len(seen)


def _is_finite(value: str) -> bool:
    try:
        return math.isfinite(read_number(value))
    except ValueError:
        return False


def _refuse(path: AnyPath, names: Sequence[str], what: str) -> None:
    if names:
        raise AsdfError(
            f"cannot write {path}: {len(names)} {what}: {quoted_and_more(names, _SHOWN)}. Rename "
            "these utterances."
        )
