"""The submission formats of challenges: the layout of each file, and its source.

Invariant: a format is included only if its layout is stated in public text or code, which `source`
names; for others, the documents say that it is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
        purpose="the evaluation package of ASVspoof 2019; needs attacks and labels",
        source="tDCF_python of asvspoof.org",
    ),
    "asvspoof2021": SubmissionFormat(
        lines="UTT SCORE",
        purpose="ASVspoof 2021 LA, DF and PA, and their package; all trials, so without --subset",
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
    lines = []
    for name, layout in SUBMISSION_FORMATS.items():
        lines.append(f"  {name:<{width}}  '{layout.lines}': {layout.purpose}")
    return "\n".join(lines)
