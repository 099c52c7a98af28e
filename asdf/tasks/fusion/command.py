"""Fuse several systems, with weights fitted to their score files on a development set.

    python -m asdf fuse a_dev.txt b_dev.txt c_dev.txt --on dev  # measure the gain
    python -m asdf fuse a_dev.txt b_dev.txt --apply a_eval.txt b_eval.txt --output fused_eval.txt
    python -m asdf fuse a_dev.txt b_dev.txt --networks a.pt b.pt --output fused.json
    python -m asdf score fused.json call.mp3

All score files have the same trials, one file per system. The first command prints the error rates
of each system and of the fusion, by cross-validation (over speakers, if --protocol has them), and a
test of the difference. --apply fuses other score files of the same systems, in the same order.
--networks makes a fused system, which every command accepts as a network.

--method logistic (default) is the weighted sum of scores that is the best log-likelihood ratio;
mean is the mean of the systems' scores, each calibrated separately; rank is the mean of their ranks
in the development set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.commands.judged_files import (
    ProtocolOptions,
    named_systems,
    read_protocol_option,
    read_system_scores,
)
from asdf.commands.options import Command, argument, option, replicates_option
from asdf.commands.outputs import (
    check_inputs,
    check_overwriting,
    output_name,
    show,
    text_stream,
    write_outputs,
)
from asdf.errors import AsdfError, UsageError
from asdf.metrics.bootstrap import SIGNIFICANT, Intervals, paired_test
from asdf.metrics.calibration import Calibration, CalibrationSet, calibrate, eer_threshold
from asdf.metrics.fusion import METHODS
from asdf.metrics.metric_columns import EER, MIN_DCF
from asdf.metrics.results import Result, evaluate
from asdf.metrics.summary import speakers_of
from asdf.runs.files import write_text
from asdf.runs.streams import input_name
from asdf.scoring.network_check import check_networks_of, network_of, warn_of_other_network
from asdf.tables.renderers import as_json, as_lines
from asdf.tables.table import Column, Columns, Table, each, texts
from asdf.tasks.fusion.gain import FusionGain, make_folds, measure_gain
from asdf.text import p_value_text
from asdf.trials.formats import read_score_file
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.matching import align_scores
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import how_scored, write_recorded

if TYPE_CHECKING:
    from asdf.metrics.fusion import Fusion

_FUSED = "fusion"
MIN_FOLDS = 2


@dataclass(frozen=True, kw_only=True)
class FuseOptions(ProtocolOptions):
    """Options of the command."""

    scores: tuple[str, ...] = argument(
        "score files of the development set, one per system; or, with --on, folders with score "
        "files, such as scores/epoch.4 of a run",
        "[NAME=]SCORES",
    )
    on: str = option(
        "name of the development set; in folders the file SET.txt is used", "SET", default=""
    )
    method: str = option("fusion method", default="logistic", choices=tuple(METHODS))
    apply: tuple[str, ...] = option(
        "also fuse these score files of another set: one per system, in the same order",
        "SCORES",
        default=(),
    )
    networks: tuple[str, ...] = option(
        "networks that made the score files: one per system, in the same order",
        "NETWORK",
        default=(),
    )
    folder: Path | None = option(
        "folder that the paths of trials are relative to; two trials are scored to check that "
        "score files without a digest are from --networks",
        "F",
    )
    output: Path | None = option(
        "output file: the fused scores of --apply (- is standard output), or the fused system of "
        "--networks (.json)",
        "OUT",
        short="-o",
        aliases=("--out",),
    )
    folds: int = option("number of folds of the cross-validation", "N", default=5)
    replicates: int = replicates_option(
        "number of replicates of the paired bootstrap (%(default)s); 0: no test"
    )
    json: Path | None = option("write all results as JSON, with all digits", "OUT")


@dataclass(frozen=True)
class DevelopmentSet:
    """The scores that a fusion is fitted to.

    Attributes:
        set: Name of the set; '' if unknown.
        names: Names of the systems.
        paths: Paths of their score files.
        scores: Scores of each system, for the same trials in one order.
        speakers: Speaker of each trial; None if unknown.
    """

    set: str
    names: list[str]
    paths: list[Path]
    scores: list[Scores]
    speakers: Sequence[str] | None


@dataclass(frozen=True)
class Applied:
    """Fused scores of another set.

    Attributes:
        names: Names of the systems.
        systems: Scores of each system.
        fused: Fused scores; labels are all 0 if unknown.
        labelled: Whether labels are known.
        scored: Part of each recording that was scored, if it is the same for all systems.
    """

    names: list[str]
    systems: list[Scores]
    fused: Scores
    labelled: bool
    scored: HowScored


def read_development(args: FuseOptions) -> DevelopmentSet:
    """Read the score files of the development set, with the labels of a protocol if given.

    Raises:
        UsageError: a folder is given without --on.
        AsdfError: a file cannot be read, or the files have different trials.
    """
    words = []
    for word in args.scores:
        path = Path(word.partition("=")[2] or word)
        is_folder = path.is_dir()
        if is_folder and not args.on:
            raise UsageError(f"{path} is a folder. Select one of its score files with --on SET.")
        words.append(f"{word}/{args.on}.txt" if is_folder else word)
    systems = named_systems(words)
    names, paths = each(systems, "name"), each(systems, "path")
    protocol = read_protocol_option(args)
    scores = _aligned(
        paths, [read_system_scores(path, protocol, args.ignore_others) for path in paths]
    )
    return DevelopmentSet(args.on, names, paths, scores, speakers_of(scores[0], protocol.trials))


def _aligned(paths: Sequence[Path], scores: Sequence[Scores]) -> list[Scores]:
    """Return scores of the same trials, in the order of the first file."""
    first = (input_name(paths[0]), scores[0])
    others = zip(paths[1:], scores[1:], strict=True)
    return [scores[0], *(align_scores(input_name(path), own, *first) for path, own in others)]


def read_applied(words: Sequence[str], development: DevelopmentSet, fusion: Fusion) -> Applied:
    """Fuse score files of another set, in any format, with or without labels.

    Raises:
        UsageError: only some files have labels.
        AsdfError: a file cannot be read, or the files have different trials.
    """
    paths = [Path(word) for word in words]
    systems: list[Scores] = []
    labelled = None
    for path, fitted in zip(paths, development.paths, strict=True):
        file = read_score_file(path)
        warn_of_other_network(path, "weight", input_name(fitted), network_of(fitted))
        if labelled not in (None, not file.count_unlabelled):
            raise UsageError(
                f"{path} and the files before it differ: some have labels, others do not. Give "
                "files that all have labels, or that all have none."
            )
        labelled = not file.count_unlabelled
        systems.append(Scores(file.ids, file.labels, file.scores))
    systems = _aligned(paths, systems)
    fused = Scores.of(systems[0], fusion.fuse(np.stack(each(systems, "scores"), axis=1)))
    # Values that differ between the files are unknown for the fusion.
    ways = [how_scored(path) for path in paths]
    common = NOT_KNOWN
    if len({way.length for way in ways}) == 1:
        precisions = {way.precision for way in ways}
        common = HowScored(ways[0].length, precisions.pop() if len(precisions) == 1 else None)
    return Applied(development.names, systems, fused, bool(labelled), common)


def gain_text(development: DevelopmentSet, measured: FusionGain) -> str:
    """Return the fusion, its systems and its gain on the development set."""
    result = measured.result
    trials = result.bona_fide + result.spoof
    on_set = f" on {development.set}" if development.set else ""
    groups = "trials" if development.speakers is None else "speakers"
    folds = len(measured.members[0].fold_weights)
    members = measured.members
    ends = [(min(member.fold_weights), max(member.fold_weights)) for member in members]
    columns = [
        *_rate_columns([*each(members, "result"), result]),
        Column("cllr", "Cllr bits").with_values([*each(members, "cllr"), result.cllr]),
        texts("weight", [*(f"{member.weight:.4g}" for member in members), ""]),
        texts("in the folds", [*(f"{a:.4g} .. {b:.4g}" for a, b in ends), ""], is_left=True),
    ]
    names = [*each(members, "name"), _FUSED]
    lines = [
        f"fusion of {len(members)} systems{on_set}: {trials} trials, {result.bona_fide} "
        f"bona fide, {result.spoof} spoof",
        f"{measured.fusion.method}: {METHODS[measured.fusion.method]}",
        f"cross-validated in {folds} folds of {groups}: none is fused by weights fitted to it",
        "",
        *as_lines(Table(names, columns, "system")),
        "",
        "Cllr is of scores calibrated on the other folds; EER and minDCF of single systems need "
        "no fit",
    ]
    lines += _difference_lines(members[measured.best].name, measured.gain, groups)
    lines += [
        f"{member.name} has a negative weight: it only corrects errors that it shares with the "
        "others. Compare with a fusion without it."
        for member in members
        if member.weight < 0
    ]
    return "\n".join(lines)


def applied_text(
    applied: Applied, development: DevelopmentSet, measured: FusionGain, replicates: int
) -> str:
    """Return the error rates of fused scores on another set, and their gain there."""
    try:
        columns = _rate_columns([evaluate(known) for known in (*applied.systems, applied.fused)])
    # A set of one class has no error rates, but its fused scores are written.
    except AsdfError as error:
        return f"no error rates: {error}"
    best = measured.best
    gain = None
    if replicates:
        gain = paired_test(applied.systems[best], applied.fused, replicates=replicates)
    # The gain is relative to the best system of the development set, not of this set.
    lines = ["on the set of --apply, with weights fitted to all trials of the set above"]
    shared = len(set(development.scores[0].ids).intersection(applied.fused.ids))
    if shared:
        lines.append(
            f"{shared} of its {len(applied.fused)} trials are also in that set, so the fusion "
            "looks better than on new trials"
        )
    lines += ["", *as_lines(Table([*applied.names, _FUSED], columns, "system"))]
    return "\n".join([*lines, "", *_difference_lines(applied.names[best], gain, "trials")])


def gain_record(development: DevelopmentSet, measured: FusionGain) -> dict[str, Any]:
    """Return all numbers of a fusion as JSON values; error rates are fractions."""
    files = zip(measured.members, development.paths, strict=True)
    return {
        "set": development.set,
        "fusion": measured.fusion.content(),
        "systems": [{**asdict(member), "scores": str(path)} for member, path in files],
        "fused": asdict(measured.result),
        "best_system": measured.members[measured.best].name,
        "gain": None if measured.gain is None else asdict(measured.gain),
        "drawn_over": "trials" if development.speakers is None else "speakers",
    }


def _rate_columns(results: Sequence[Result]) -> Columns:
    metrics = [replace(metric, marked=False) for metric in (EER, MIN_DCF)]
    return [metric.with_values(each(results, metric.key)) for metric in metrics]


def _difference_lines(best: str, gain: Intervals | None, drawn: str) -> list[str]:
    if gain is None:
        return []
    lines = [
        f"{_FUSED} - {best}, the best system above (paired bootstrap over {drawn}, two-sided):"
    ]
    for metric, tested in ((EER, gain.eer), (MIN_DCF, gain.min_dcf)):
        # A paired test always has one.
        assert tested.p_value is not None
        verdict = "no significant difference"
        if tested.p_value < SIGNIFICANT:
            verdict = "the fusion is better" if tested.value < 0 else "the fusion is worse"
        value, bounds, _ = metric.format_difference(tested)
        shown = f"{value}  95 %: {bounds}  p {p_value_text(tested.p_value)}: {verdict}"
        lines.append(f"  {metric.name:<6}  {shown}")
    return lines


def write_fused_system(
    out: Path, networks: Sequence[str], development: DevelopmentSet, measured: FusionGain
) -> None:
    """Write the fusion of all trials with its networks and a threshold at the EER.

    Raises:
        AsdfError: a network cannot be read, or the file cannot be written.
    """
    # torch is needed from here on, and takes seconds to import.
    from asdf.checkpoint.fused_file import FusedSystem, describe_networks, write_fused_file
    from asdf.interchange import find_network

    scores_NS = np.stack(each(development.scores, "scores"), axis=1)
    fused = Scores.of(development.scores[0], measured.fusion.fuse(scores_NS))
    # The threshold is at the EER of the fused scores.
    if measured.fusion.is_llr:
        # Fitting again would give this map up to rounding.
        calibration = Calibration(1.0, 0.0, eer_threshold(fused.bona_fide, fused.spoof))
    else:
        calibration = calibrate(fused.bona_fide, fused.spoof)
    learnt_from = CalibrationSet(fused, development.set or None, development.speakers)
    described = learnt_from.describe(calibration, measured.result.cllr)
    paths = [find_network(network) for network in networks]
    result = measured.result
    system = FusedSystem(
        tuple(describe_networks(networks, paths, out)),
        measured.fusion,
        # The EER on trials that the weights were not fitted to.
        replace(described, eer=result.eer),
        {
            "set": development.set,
            "trials": development.scores[0].digest(),
            "bona_fide": result.bona_fide,
            "spoof": result.spoof,
            "cross_validated_eer": result.eer,
        },
    )
    write_fused_file(out, system)


COMMAND = Command("fuse", __doc__, FuseOptions)


def main(arguments: list[str]) -> int:
    """Fit and measure a fusion, and apply it; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: files cannot be read, written or fused.
    """
    args = COMMAND.read(arguments)
    _check(args)
    screen = text_stream([args.output, args.json])
    development = read_development(args)
    # Checked here, where the files behind NAME=SCORES and folders are known.
    inputs = [*development.paths, *map(Path, (*args.apply, *args.networks))]
    if args.protocol is not None:
        inputs.append(args.protocol)
    check_overwriting(inputs, [args.output, args.json])
    if args.networks:
        # In another order than their scores, networks would get each other's weights.
        check_networks_of(args.networks, development.paths, development.scores, args.folder)
    first = development.scores[0]
    speakers = development.speakers
    measured = measure_gain(
        development.scores,
        development.names,
        args.method,
        make_folds(first.ids, first.labels, speakers, args.folds),
        speakers=speakers,
        replicates=args.replicates,
    )
    applied = None
    if args.apply:
        # Read before anything is written, so that a mistake in these files leaves no output.
        applied = read_applied(args.apply, development, measured.fusion)
    record = gain_record(development, measured) | {"folds": args.folds, "seed": 0}

    def write_out(path: Path) -> None:
        if applied is not None:
            fused = applied.fused
            labels = fused.labels if applied.labelled else None
            write_recorded(path, fused.ids, labels, fused.scores, applied.scored)
        if args.networks:
            write_fused_system(path, args.networks, development, measured)

    write_outputs(
        [(args.output, write_out), (args.json, lambda path: write_text(path, as_json(record)))]
    )
    show(gain_text(development, measured), screen)
    if applied is not None and args.output is not None:
        if applied.labelled:
            show("\n" + applied_text(applied, development, measured, args.replicates), screen)
        show(f"\nwritten to {output_name(args.output)}: {len(applied.fused):,} scores", screen)
    if args.networks:
        show(f"\nwritten to {args.output}: score recordings with it as with a network", screen)
    return 0


def _check(args: FuseOptions) -> None:
    """Raise UsageError for contradictory options."""
    if len(args.scores) < 2:
        raise UsageError("a fusion needs at least two systems. Give a score file per system.")
    if args.folds < MIN_FOLDS:
        raise UsageError(f"--folds must be at least {MIN_FOLDS}.")
    if args.apply and args.networks:
        raise UsageError("--apply and --networks write different files. Give one of them.")
    if bool(args.apply or args.networks) != (args.output is not None):
        raise UsageError(
            "--output must be given together with --apply (fused scores) or --networks (fused "
            "system)."
        )
    for option_name, words in (("--apply", args.apply), ("--networks", args.networks)):
        if words and len(words) != len(args.scores):
            raise UsageError(
                f"{option_name} has {len(words)} values, but the fusion has {len(args.scores)} "
                "systems. Give one per system, in the same order."
            )
    if args.networks and args.output and args.output.suffix != ".json":
        raise UsageError(f"--output {args.output}: the name of a fused system must end in .json.")
    check_inputs([*map(Path, (*args.apply, *args.scores)), args.protocol])
