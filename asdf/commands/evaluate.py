"""Evaluate score files: metrics of the official packages, by condition, with intervals.

    python -m asdf evaluate scores/epoch.20/asvspoof19-eval.txt
    python -m asdf evaluate scores.txt --protocol metadata.txt --subset eval --by attack,codec
    python -m asdf evaluate scores.csv --protocol recordings/         # labels from real/ and fake/
    python -m asdf evaluate la_eval.txt --asv-scores ASVspoof2019.LA.asv.eval.gi.trl.scores.txt
    python -m asdf evaluate AASIST=first.txt SLS=second.txt --protocol P --latex table.tex
    python -m asdf evaluate net=seed0.txt,seed1.txt other=seed2.txt,seed3.txt --protocol P
    python -m asdf evaluate eval.txt --threshold-from dev.txt --threshold-by best-f1
    python -m asdf evaluate predict.csv --protocol eval.csv --decisions --by type
    python -m asdf evaluate scores.txt --protocol P --submission score.zip --format asvspoof5
    python -m asdf evaluate frames.json trials.tsv --resolution 0.02,0.16
    python -m asdf evaluate scores/epoch.20/demo-eval.sources.tsv --reject energy
    python -m asdf evaluate scores.tsv --keys ASVspoof5.eval.track_2.trial.tsv --by attack

The first line of a file shows what it holds. A higher score means bona fide.

Detection scores: lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT
SCORE', or a table with a header such as 'file,score'. The protocol is a label file of any corpus
that ASDF supports; every trial of it needs a score. Several seeds (NAME=A,B,C) also have a mean, a
deviation and an interval. A set of one class has the error rate at a threshold from elsewhere.

Frame scores: a file of `score --segments`, or lines 'RECORDING FRAME SCORE' with --hop. The second
file has the spoofed parts: a table with the column spoofed_s, an RTTM, lines 'NAME START END
LABEL', or the labels of HAD, LlamaPartialSpoof or PartialSpoof.

Source scores are written by stage 2 of a run with source.column.

SASV scores: the header 'spk filename cm-score asv-score sasv-score', or lines 'SPK UTT SCORE KEY'
or, with --keys, 'SPK UTT SCORE'. Keys are target, nontarget and spoof.

'-' is standard input or standard output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from asdf.commands.judged_files import ProtocolOptions, System, ThresholdOptions, named_systems
from asdf.commands.options import Command, argument, flag, option, replicates_option
from asdf.commands.outputs import check_file, check_inputs, check_overwriting, text_stream
from asdf.errors import UsageError
from asdf.places import open_file
from asdf.ports import load
from asdf.tasks.sasv.sasv_files import KEYS
from asdf.tasks.sasv.sasv_measures import FUSIONS
from asdf.tasks.tracing.source_scores import BonaFideRule
from asdf.trials.submission_files import FORMATS, formats_table
from asdf.trials.text_lines import numbered_lines, peek

_PEEKED_BYTES = 1 << 16


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
    ratios: Path | None = option(
        "draw OUT-tippett (the ratios of each class), OUT-ece (empirical cross-entropy over the "
        "prior odds, before and after PAV) and OUT-reliability (observed over stated proportion "
        "of bona fide trials), with the suffix of OUT: .pdf, .png, .svg",
        "OUT",
        check=check_file,
    )


@dataclass(frozen=True, kw_only=True)
class SubmissionOptions:
    """Submissions to challenges."""

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
    fuse: str | None = option(
        "fuse CM and ASV scores into a SASV score, with this method", choices=FUSIONS
    )
    on: str | None = option(
        "score file of the development set for fitting the fusion, or its CM and ASV scores",
        "DEV|CM,ASV",
    )
    on_keys: Path | None = option("keys of the development set", "K")


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
        "label file, or folder with real/ and fake/", "P", aliases=("--trials",)
    )
    by: str | None = option(
        "columns of P to break results down by (attack); gender+language combines two columns",
        "C,C",
    )
    costs: str | None = option(
        "costs other than those of ASVspoof 5: p_spoof, cost_miss, cost_fa, or nist2008, nist2010, "
        "asvspoof2019; of the a-DCF also p_target, p_nontarget, cost_spoof",
        "NAME=X,...",
    )
    replicates: int = replicates_option(
        "number of bootstrap replicates (%(default)s); 0: no intervals"
    )
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


def ratio_plots(args: RatioOptions) -> dict[str, Path]:
    """Return the file of each plot of likelihood ratios; none if they are not requested."""
    if args.ratios is None:
        return {}
    kinds = ("tippett", "ece", "reliability")
    # with_stem would not do: '.' has no name.
    folder, stem, suffix = args.ratios.parent, args.ratios.stem, args.ratios.suffix
    return {kind: folder / f"{stem}-{kind}{suffix}" for kind in kinds}


def development_files(on: str | None) -> list[str]:
    """Return the score files of --on: one, or two that are separated by a comma."""
    if not on:
        return []
    return [on] if Path(on).exists() else on.split(",")


COMMAND = Command(
    "evaluate",
    f"{__doc__}\nformats of --submission:\n{formats_table()}",
    EvaluateOptions,
    {".json": "json", ".csv": "csv", ".tex": "latex"}
    | dict.fromkeys((".pdf", ".png", ".svg"), "plot"),
    ("protocol", "subset", "by", "costs", "threshold_from", "json", "csv", "latex", "plot"),
)


@dataclass(frozen=True)
class Kind:
    """What a score file may hold.

    Attributes:
        function: Path of the function, which takes options, systems and the screen.
        options: Classes of options that apply to it, besides those of all kinds.
        others: Further options that apply to it.
    """

    noun: str
    function: str
    options: tuple[type, ...]
    others: str = ""

    def takes(self, option: str) -> bool:
        """Whether an option applies, by the name of its field."""
        own = {one.name for options in self.options for one in fields(options)}
        return option in {*own, *self.others.split(), "scores", "replicates", "json"}


KINDS = {
    "detection": Kind(
        "detection scores",
        "asdf.commands.evaluate_detection.evaluate",
        (ThresholdOptions, TandemOptions, RatioOptions, SubmissionOptions),
        "protocol subset ignore_others by costs scored_length csv latex plot",
    ),
    "submission": Kind(
        "scores of a list without labels",
        "asdf.commands.evaluate_detection.submit",
        (SubmissionOptions,),
        "protocol threshold ignore_others",
    ),
    "frames": Kind(
        "frame scores",
        "asdf.tasks.localisation.command.evaluate",
        (FrameOptions,),
        "ignore_others threshold",
    ),
    "sources": Kind(
        "source scores",
        "asdf.tasks.tracing.command.evaluate",
        (SourceOptions,),
        "protocol subset plot",
    ),
    "sasv": Kind(
        "SASV scores",
        "asdf.tasks.sasv.command.evaluate",
        (SasvOptions,),
        "asv_scores by costs csv latex submission",
    ),
}


def main(arguments: list[str], name: str = "") -> int:
    """Print the metrics; return 0 even if something looks wrong, which stderr states.

    Args:
        name: Name of the kind of the files, one of `KINDS`; '' to look.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a file cannot be read, written or evaluated.
    """
    if name in ("sasv", "submission"):
        # The commands of these names had an --output with any suffix.
        renamed = {"-o": "--submission", "--output": "--submission"}
        arguments = [renamed.get(argument, argument) for argument in arguments]
    args = COMMAND.read(arguments)
    systems = named_systems(args.scores)
    inputs = [system.path for system in systems]
    of_detection = (args.protocol, args.asv_scores, args.asv_keys, args.threshold_protocol)
    inputs += [path for path in (*of_detection, args.keys, args.on_keys) if path]
    inputs += map(Path, [*args.threshold_from, *development_files(args.on)])
    check_inputs(inputs)
    pictures = [args.plot, *ratio_plots(args).values()]
    outputs = [args.json, args.csv, args.latex, args.submission, args.path, *pictures]
    check_overwriting(inputs, outputs)
    kind = KINDS[name or kind_of(args, systems)]
    for one in fields(args):
        if getattr(args, one.name) != one.default and not kind.takes(one.name):
            option = one.name.replace("_", "-")
            raise UsageError(f"--{option} does not apply to {kind.noun}. Is it the right file?")
    screen = text_stream(outputs)
    load(kind.function)(args, systems, screen)
    return 0


def kind_of(args: EvaluateOptions, systems: Sequence[System]) -> str:
    """Return the kind of the score files, by the options or the first line of the first file."""
    if args.check:
        return "submission"
    if args.submission and args.protocol:
        # A list without labels has only the names of utterances, which have no spaces.
        lines = [line for _, line in numbered_lines(args.protocol)]
        if not any(len(line.split()) > 1 or "," in line for line in lines):
            return "submission"
    if args.keys:
        return "sasv"
    if args.hop:
        return "frames"
    if not systems:
        raise UsageError("give the score files to evaluate.")
    path = systems[0].path
    if path.suffix == ".json":
        with open_file(path) as file:
            # As `score --segments` writes them; `score --json` has "hop_s" of its search for parts.
            return "frames" if b'"duration_s"' in file.read(_PEEKED_BYTES) else "detection"
    if path.suffix == ".npz":
        return "frames"
    first, _ = peek(numbered_lines(path))
    words = first.lower().split()
    if words[:1] == ["utterance"] and words[2:3] == ["energy"]:
        return "sources"
    is_sasv = words[:2] == ["spk", "filename"] or (len(words) == 4 and words[3] in KEYS)
    return "sasv" if is_sasv else "detection"
