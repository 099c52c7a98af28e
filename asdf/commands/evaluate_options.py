"""The options of `evaluate`: those of all score files, and those of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asdf.commands.judged_files import ProtocolOptions
from asdf.commands.options import argument, flag, option, replicates_option
from asdf.commands.outputs import check_file
from asdf.metrics.thresholds import THRESHOLD_RULES
from asdf.tasks.sasv.sasv_measures import FUSIONS
from asdf.tasks.tracing.source_scores import BonaFideRule
from asdf.trials.submission_formats import FORMATS


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """Decisions at a threshold: accuracy, F1, macro-F1, precision, recall."""

    threshold: str | None = option(
        "lowest score that is called bona fide; of frame scores one for all resolutions, or T,T "
        "with one for each",
        "X",
        one_of="threshold",
    )
    threshold_from: tuple[str, ...] = option(
        "choose the threshold on this score file of another set; repeat once per system in the "
        "same order, or give it once for several sets scored by one network",
        "DEV",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    threshold_of: tuple[str, ...] = option(
        "use the threshold of this calibrated network; repeat once per system in the same order, "
        "or give it once for several sets scored by one network",
        "NETWORK",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    decisions: bool = flag(
        "SCORES contain decisions: lines 'UTT bonafide|spoof', or AT-ADD's CSV of real and fake",
        one_of="threshold",
    )
    threshold_by: str | None = option(
        "criterion for the threshold on DEV (eer); best-f1 means the best macro-F1",
        choices=THRESHOLD_RULES,
    )
    threshold_protocol: Path | None = option("label file of DEV, if DEV has no labels", "P")
    threshold_subset: str | None = option("use only this subset of the label file of DEV", "S")


@dataclass(frozen=True, kw_only=True)
class TandemOptions:
    """Scores of a speaker verification system (ASV), for the t-DCF and the t-EER."""

    asv_scores: Path | None = option(
        "its scores, lines 'SOURCE KEY SCORE'; with --keys 'SPK UTT SCORE', next to SCORES of the "
        "countermeasure (CM)",
        "F",
        aliases=("--asv",),
    )
    asv_keys: Path | None = option(
        "keys of the ASV scores, if these have none (ASVspoof 2021)", "F"
    )


@dataclass(frozen=True, kw_only=True)
class RatioOptions:
    """Likelihood ratios, as natural logarithms."""

    calibration: str | None = option(
        "first convert scores of this calibrated network to likelihood ratios", "NETWORK"
    )
    tippett: Path | None = option(
        "draw a Tippett plot, the distribution of likelihood ratios of each class",
        "OUT",
        check=check_file,
    )
    ece: Path | None = option(
        "draw the empirical cross-entropy of likelihood ratios over the prior odds, before and"
        " after PAV",
        "OUT",
        check=check_file,
    )
    reliability: Path | None = option(
        "draw a reliability diagram: observed over stated proportion of bona fide trials",
        "OUT",
        check=check_file,
    )


@dataclass(frozen=True, kw_only=True)
class SubmissionOptions:
    """Submissions to challenges, see the formats above."""

    submission: Path | None = option(
        "write the scores of all trials of P in a challenge's format; without labels in P, nothing "
        "is evaluated; also fused SASV scores",
        "OUT",
    )
    format: str | None = option("format of the submission", choices=FORMATS)
    check: bool = flag("check the file SCORES, which is to be submitted, against the trials of P")


@dataclass(frozen=True, kw_only=True)
class FrameOptions:
    """Frame scores, which locate spoofed parts: give the file with these parts as well."""

    resolution: str | None = option(
        "frame lengths for point metrics in seconds (that of the scores)", "S,S"
    )
    hop: float | None = option(
        "frame length in seconds of a text file 'RECORDING FRAME SCORE'", "S"
    )


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Source scores: which attack, vocoder, language etc. a recording is of."""

    column: str | None = option("column of P with the classes (the column in the file)", "C")
    bona_fide: BonaFideRule = option(
        "class of bona fide trials of P, as in source.bona_fide", default="left_out"
    )
    reject: Literal["probability", "logit", "energy", "entropy"] = option(
        "rejection score for unknown sources", default="probability"
    )


@dataclass(frozen=True, kw_only=True)
class SasvOptions:
    """SASV scores, of spoofing-robust speaker verification."""

    keys: Path | None = option("file with the key of each trial: target, nontarget or spoof", "K")
    llr: bool = flag(
        "scores are log-likelihood ratios: also compute the a-DCF at the Bayes threshold"
    )
    path: Path | None = option("write the t-EER path as CSV", "OUT")
    costs: str | None = option(
        "costs of the a-DCF other than those of ASVspoof 5: p_target, p_nontarget, p_spoof, "
        "cost_miss, cost_fa, cost_spoof",
        "NAME=X,...",
    )
    fuse: str | None = option(
        "fuse CM and ASV scores into a SASV score, with this method", choices=FUSIONS
    )
    on: str | None = option(
        "score file of the development set for fitting the fusion, or its CM and ASV scores",
        "DEV|CM,ASV",
    )
    on_keys: Path | None = option("keys of the development set", "K")
    spoof_share: float | None = option("proportion of spoofs among impostors (from the costs)", "R")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(
    ThresholdOptions,
    TandemOptions,
    RatioOptions,
    SubmissionOptions,
    FrameOptions,
    SourceOptions,
    SasvOptions,
    ProtocolOptions,
):
    """Options of the command."""

    scores: tuple[str, ...] = argument(
        "score files, one per system; the default name of a system is that of its file, or the "
        "folders in which the paths differ; after frame scores, the file with the spoofed parts",
        "[NAME=]SCORES",
        default=(),
    )
    protocol: Path | None = option(
        "label file of the set, with labels and conditions", "P", aliases=("--trials",)
    )
    subset: str | None = option("evaluate only this subset of P (ASVspoof 2021: eval)", "S")
    ignore_others: bool = flag("ignore scored trials that are not in P")
    by: str | None = option(
        "columns of P to break results down by (attack); gender+language combines two columns",
        "C,C",
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
    set: str = option("name of the set in the output", "NAME", default="")
    scored_length: str | None = option(
        "scored length of each recording, if the file does not state it: published (64,600"
        " samples), whole, or a number of samples",
        "L",
    )
    json: Path | None = option("write all results as JSON, with all digits", "OUT")
    csv: Path | None = option("write a CSV row per system and condition", "OUT")
    latex: Path | None = option("write LaTeX tables for a paper (booktabs)", "OUT")
    plot: Path | None = option(
        "draw DET curves (.pdf, .png, .svg); for a single system also by the columns of --by; of"
        " sources the confusion matrix, for several systems OSCR curves",
        "OUT",
        check=check_file,
        aliases=("--picture",),
    )
    title: str = option("title of the plots", "TEXT", default="")


def development_files(on: str | None) -> list[str]:
    """Return the score files of --on: one, or two that are separated by a comma."""
    if not on:
        return []
    return [on] if Path(on).exists() else on.split(",")
