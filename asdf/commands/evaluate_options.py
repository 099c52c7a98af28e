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
        "scores of an ASV system for the t-DCF, lines 'SOURCE KEY SCORE'",
        metavar="F",
    )
    asv_keys: Path | None = option(
        "keys of the ASV scores, if these have none (ASVspoof 2021)",
        metavar="F",
    )
    by: str | None = option(
        "columns of P to break results down by (attack); gender+language combines two columns",
        metavar="C,C",
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
    set: str = option(
        "name of the set in the output",
        metavar="NAME",
        default="",
    )
    scored_length: str | None = option(
        "scored length of each recording, if the file does not state it: published (64,600"
        " samples), whole, or a number of samples",
        metavar="L",
    )
    json: Path | None = option(
        "write all results as JSON, with all digits",
        metavar="OUT",
    )
    csv: Path | None = option(
        "write a CSV row per system and condition",
        metavar="OUT",
    )
    latex: Path | None = option(
        "write LaTeX tables for a paper (booktabs)",
        metavar="OUT",
    )
    plot: Path | None = option(
        "draw DET curves (.pdf, .png, .svg); for a single system also by the columns of --by",
        metavar="OUT",
        check=check_file,
    )
    calibration: str | None = option(
        "first convert scores of this calibrated network to likelihood ratios",
        metavar="NETWORK",
    )
    tippett: Path | None = option(
        "draw a Tippett plot, the distribution of likelihood ratios of each class; scores must be"
        " natural-log ratios, such as those of a calibrated network",
        metavar="OUT",
        check=check_file,
    )
    ece: Path | None = option(
        "draw the empirical cross-entropy of likelihood ratios over the prior odds, before and"
        " after PAV",
        metavar="OUT",
        check=check_file,
    )
    reliability: Path | None = option(
        "draw a reliability diagram: observed over stated proportion of bona fide trials",
        metavar="OUT",
        check=check_file,
    )
    title: str = option(
        "title of the plots",
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
