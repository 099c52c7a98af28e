"""Evaluate score files: metrics of the official packages, by condition, with intervals.

    python -m asdf evaluate scores/epoch.20/asvspoof19-eval.txt
    python -m asdf evaluate scores.txt --protocol metadata.txt --subset eval --by attack,codec
    python -m asdf evaluate la_eval.txt --asv-scores ASVspoof2019.LA.asv.eval.gi.trl.scores.txt
    python -m asdf evaluate AASIST=first.txt SLS=second.txt --protocol P --latex table.tex
    python -m asdf evaluate net=seed0.txt,seed1.txt other=seed2.txt,seed3.txt --protocol P
    python -m asdf evaluate scores.txt --protocol P --by attack --plot det.pdf
    python -m asdf evaluate llrs.txt --tippett tippett.pdf --ece ece.pdf --reliability bins.pdf
    python -m asdf evaluate eval.txt --threshold-from dev.txt --threshold-by best-f1
    python -m asdf evaluate predict.csv --protocol eval.csv --decisions --by type
    python -m asdf evaluate scores.txt --protocol P --submission score.zip --format asvspoof5
    python -m asdf evaluate frames.json trials.tsv --resolution 0.02,0.16
    python -m asdf evaluate scores/epoch.20/demo-eval.sources.tsv --reject energy
    python -m asdf evaluate scores.tsv --keys ASVspoof5.eval.track_2.trial.tsv --by attack

The first line of a file shows what it holds.

Detection scores are lines 'relative/path.flac 1 SCORE', 'UTT ATTACK bonafide|spoof SCORE' or 'UTT
SCORE' (with or without the header 'filename TAB cm-score'), plain or gzipped; a higher score means
bona fide. The protocol is a label file of any corpus that ASDF supports. If both files have labels,
they must agree, and every trial of the protocol needs a score. For several seeds, given as
NAME=A,B,C or as files of runs whose recorded settings differ only in the seed, the output also has
the mean, standard deviation, interval and a test over seeds. For a set with only one class, the
output is the recall and the error rate at a threshold from other trials (--threshold-from,
--threshold-of, --threshold), with exact intervals.

Frame scores are a file from `score --segments`, or text with lines 'RECORDING FRAME SCORE' and
--hop. The second file has the spoofed parts: a table of trials with the column spoofed_s, an RTTM,
lines 'NAME START END LABEL' in seconds, or the label file of HAD, LlamaPartialSpoof or PartialSpoof
(*_seglab_0.16.npy). The range EER measures time, the point EER counts frames, and F1, precision,
recall and intersection over union (IoU) of spoof are computed at the threshold.

Source scores are written by stage 2 of a run with source.column: accuracy, macro-F1 and confusion
of known classes; for others the EER of known against unknown, and OSCR (Dhamija et al., 2018).

SASV scores have the header 'spk filename cm-score asv-score sasv-score', with '-' for missing
values, or lines 'SPK UTT SCORE KEY' or, with --keys, 'SPK UTT SCORE': a-DCF, t-EER and EERs. Keys
are target, nontarget and spoof, in files of ASVspoof 5, SASV 2022 and WildSpoof.

'-' is standard input or standard output; if an output is '-', the tables are printed on standard
error.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from asdf.commands.evaluate_options import (
    EvaluateOptions,
    FrameOptions,
    RatioOptions,
    SasvOptions,
    SourceOptions,
    SubmissionOptions,
    TandemOptions,
    ThresholdOptions,
    development_files,
)
from asdf.commands.judged_files import System, named_systems
from asdf.commands.options import Command
from asdf.commands.outputs import check_inputs, check_overwriting
from asdf.errors import UsageError
from asdf.places import open_file
from asdf.tasks.sasv.sasv_files import KEYS
from asdf.trials.submission_formats import formats_table
from asdf.trials.text_lines import numbered_lines, peek

COMMAND = Command(
    "evaluate",
    f"{__doc__}\nformats of --submission:\n{formats_table()}",
    EvaluateOptions,
    {".json": "json", ".csv": "csv", ".tex": "latex"}
    | dict.fromkeys((".pdf", ".png", ".svg"), "plot"),
)

_PEEKED_BYTES = 1 << 16


@dataclass(frozen=True)
class Kind:
    """What a score file may hold.

    Attributes:
        module: Module with the function `evaluate(args, systems)`.
        options: Classes of options that apply to it, besides those of all kinds.
        others: Further options that apply to it.
    """

    noun: str
    module: str
    options: tuple[type, ...]
    others: str = ""

    def takes(self, option: str) -> bool:
        """Whether an option applies, by the name of its field."""
        own = {one.name for options in self.options for one in fields(options)}
        return option in {*own, *self.others.split(), "scores", "replicates", "json"}


KINDS = {
    "detection": Kind(
        "detection scores",
        "asdf.commands.evaluate_detection",
        (ThresholdOptions, TandemOptions, RatioOptions, SubmissionOptions),
        "protocol subset ignore_others by set scored_length csv latex plot title",
    ),
    "submission": Kind(
        "scores of a list without labels",
        "asdf.commands.evaluate_submission",
        (SubmissionOptions,),
        "protocol threshold",
    ),
    "frames": Kind(
        "frame scores",
        "asdf.tasks.localisation.command",
        (FrameOptions,),
        "ignore_others threshold",
    ),
    "sources": Kind(
        "source scores", "asdf.tasks.tracing.command", (SourceOptions,), "protocol subset set plot"
    ),
    "sasv": Kind(
        "SASV scores",
        "asdf.tasks.sasv.command",
        (SasvOptions,),
        "asv_scores by csv latex submission",
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
    check_overwriting(inputs, outputs_of(args))
    kind = KINDS[name or kind_of(args, systems)]
    for one in fields(args):
        if getattr(args, one.name) != one.default and not kind.takes(one.name):
            option = one.name.replace("_", "-")
            raise UsageError(
                f"--{option} does not apply to {kind.noun}. Leave it out, or check that the file "
                "is the right one."
            )
    importlib.import_module(kind.module).evaluate(args, systems)
    return 0


def outputs_of(args: EvaluateOptions) -> list[Path | None]:
    """Return the files to write; None for those that were not requested."""
    pictures = [args.plot, args.tippett, args.ece, args.reliability]
    return [args.json, args.csv, args.latex, args.submission, args.path, *pictures]


def kind_of(args: EvaluateOptions, systems: Sequence[System]) -> str:
    """Return the kind of the score files, by the options or the first line of the first file."""
    if args.check or (args.submission and args.protocol and not has_labels(args.protocol)):
        return "submission"
    if args.keys:
        return "sasv"
    if args.hop:
        return "frames"
    if not systems:
        raise UsageError("give the score files to evaluate.")
    path = systems[0].path
    if path.suffix == ".json":
        return "frames" if are_frames(path) else "detection"
    if path.suffix == ".npz":
        return "frames"
    first, _ = peek(numbered_lines(path))
    words = first.lower().split()
    if words[:1] == ["utterance"] and words[2:3] == ["energy"]:
        return "sources"
    is_sasv = words[:2] == ["spk", "filename"] or (len(words) == 4 and words[3] in KEYS)
    return "sasv" if is_sasv else "detection"


def has_labels(path: Path) -> bool:
    """Whether a list of trials has more than the names of utterances, which have no spaces."""
    return any(len(line.split()) > 1 or "," in line for _, line in numbered_lines(path))


def are_frames(path: Path) -> bool:
    """Whether a JSON file is one of `score --segments`."""
    with open_file(path) as file:
        return b'"hop_s"' in file.read(_PEEKED_BYTES)
