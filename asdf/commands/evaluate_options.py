"""The options of `evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asdf.commands.judged_files import ScoreFilesOptions, ThresholdOptions
from asdf.commands.options import option, replicates_option
from asdf.commands.outputs import check_file
from asdf.trials.submission_formats import FORMATS


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ScoreFilesOptions, ThresholdOptions):
    """Options of the command."""

    asv_scores: Path | None = option(
        "'SOURCE KEY SCORE' of an ASV system, for t-DCF",
        metavar="F",
    )
    asv_keys: Path | None = option(
        "keys of ASV scores that have none (ASVspoof 2021)",
        metavar="F",
    )
    by: str | None = option(
        "columns of P to break results down by (attack), whose groups are compared where both"
        " classes have them; gender+language: both together",
        metavar="C,C",
    )
    cross_test: str | None = option(
        "columns that tell sets of spoofs and sets of genuine speech apart, each pair of which gets"
        " an EER, such as attack,language; `file` is the score file",
        metavar="S,G",
    )
    replicates: int = replicates_option(
        "replicates of the bootstrap (%(default)s); 0: no intervals"
    )
    set: str = option(
        "name of the set in the output",
        metavar="NAME",
        default="",
    )
    scored_length: str | None = option(
        "how much of each recording was scored, where the file does not say it: published (64,600"
        " samples), whole, or a number of samples",
        metavar="L",
    )
    json: Path | None = option(
        "write everything with all digits",
        metavar="OUT",
    )
    csv: Path | None = option(
        "write a row for each system and condition",
        metavar="OUT",
    )
    latex: Path | None = option(
        "write tables for a paper (booktabs)",
        metavar="OUT",
    )
    html: Path | None = option(
        "write a page of --cross-test, or of the groups of --by",
        metavar="OUT",
    )
    plot: Path | None = option(
        "draw the DET curves, of one system also by the columns of --by: .pdf, .png, .svg",
        metavar="OUT",
        check=check_file,
    )
    calibration: str | None = option(
        "turn scores of this calibrated network into its likelihood ratios first",
        metavar="NETWORK",
    )
    tippett: Path | None = option(
        "draw for both classes how large the likelihood ratios are; of scores that are natural-log"
        " ratios, as those of a calibrated network",
        metavar="OUT",
        check=check_file,
    )
    ece: Path | None = option(
        "draw the empirical cross-entropy of likelihood ratios over the prior odds, as they are and"
        " after PAV",
        metavar="OUT",
        check=check_file,
    )
    reliability: Path | None = option(
        "draw how often recordings are bona fide by what likelihood ratios state",
        metavar="OUT",
        check=check_file,
    )
    title: str = option(
        "above the plots",
        metavar="TEXT",
        default="",
    )
    # `submission` writes them now.
    submission: Path | None = option(
        "write the scores in a challenge's format",
        hidden=True,
    )
    format: str | None = option(
        "format of the submission",
        choices=FORMATS,
        hidden=True,
    )
