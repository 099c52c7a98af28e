"""Fuse several systems, with weights fitted to their score files on a development set.

    python -m asdf fuse a_dev.txt b_dev.txt c_dev.txt --on dev  # measure the gain
    python -m asdf fuse a_dev.txt b_dev.txt --apply a_eval.txt b_eval.txt --output fused_eval.txt
    python -m asdf fuse a_dev.txt b_dev.txt --networks a.pt b.pt --output fused.json
    python -m asdf score fused.json call.mp3

All score files have the same trials, one file per system. The first command above prints the error
rates of each system and of the fusion, and a test of the difference. The fusion is measured by
cross-validation: no trial is scored with weights that were fitted to it or, if --protocol has
speakers, to another trial of its speaker. --apply fuses other score files of the same systems, in
the same order, with weights fitted to all trials. --networks combines these weights with the
networks into a fused system, which every command accepts as a network.

--method logistic (default) is the weighted sum of scores that is the best log-likelihood ratio;
mean is the mean of the systems' scores, each calibrated separately; rank is the mean of their ranks
in the development set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import Command, option, replicates_option
from asdf.commands.outputs import (
    check_file,
    check_inputs,
    check_overwriting,
    output_name,
    show,
    text_stream,
    write_outputs,
)
from asdf.commands.whose_scores import check_networks_of
from asdf.errors import UsageError
from asdf.hub import parse_name
from asdf.runs.files import write_text
from asdf.shipped import is_shipped
from asdf.tables.plain_json import as_json
from asdf.tasks.fusion.commands.fuse_scores import (
    DevelopmentOptions,
    DevelopmentSet,
    applied_text,
    gain_record,
    gain_text,
    read_applied,
    read_development,
)

if TYPE_CHECKING:
    from asdf.metrics.calibration import Calibration
    from asdf.tasks.fusion.gain import FusionGain


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

    paths = [find_network(network) for network in networks]
    result = measured.result
    system = FusedSystem(
        tuple(describe_networks(networks, paths, out)),
        measured.fusion,
        _calibrate(development, measured),
        {
            "set": development.set,
            "trials": development.scores[0].digest(),
            "bona_fide": result.bona_fide,
            "spoof": result.spoof,
            "cross_validated_eer": result.eer,
        },
    )
    write_fused_file(out, system)


def _calibrate(development: DevelopmentSet, measured: FusionGain) -> Calibration:
    """Return the calibration of fused scores, with the threshold at their EER."""
    import numpy as np

    from asdf.commands.learn_calibration import CalibrationSet, describe_set
    from asdf.metrics.calibration import Calibration, calibrate, eer_threshold
    from asdf.trials.score_file import Scores

    first = development.scores[0]
    columns = [system.scores for system in development.scores]
    fused = Scores.of(first, measured.fusion.fuse(np.stack(columns, axis=1)))
    if measured.fusion.is_llr:
        # Fitting again would give this map up to rounding.
        calibration = Calibration(1.0, 0.0, eer_threshold(fused.bona_fide, fused.spoof))
    else:
        calibration = calibrate(fused.bona_fide, fused.spoof)
    learnt_from = CalibrationSet(fused, development.set or None, development.speakers)
    described = describe_set(calibration, learnt_from, measured.result.cllr)
    # The EER on trials that the weights were not fitted to.
    return replace(described, eer=measured.result.eer)


METHODS = ("logistic", "mean", "rank")
MIN_FOLDS = 2


@dataclass(frozen=True, kw_only=True)
class FuseOptions(DevelopmentOptions):
    """Options of the command."""

    method: str = option("fusion method", default="logistic", choices=METHODS)
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
    seed: int = option("seed of folds and test", "N", default=0)
    replicates: int = replicates_option(
        "number of replicates of the paired bootstrap (%(default)s); 0: no test"
    )
    json: Path | None = option("write all results as JSON, with all digits", "OUT")


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
    # Imported here, so that mistakes in the options are reported at once.
    from asdf.tasks.fusion.gain import make_folds, measure_gain

    first = development.scores[0]
    speakers = development.speakers
    measured = measure_gain(
        development.scores,
        development.names,
        args.method,
        make_folds(first.ids, first.labels, speakers, args.folds, args.seed),
        speakers=speakers,
        replicates=args.replicates,
        seed=args.seed,
    )
    applied = None
    if args.apply:
        # Read before anything is written, so that a mistake in these files leaves no output.
        applied = read_applied(args.apply, development, measured.fusion)
    record = gain_record(development, measured) | {"folds": args.folds, "seed": args.seed}

    def write_out(path: Path) -> None:
        if applied is not None:
            applied.write(path)
        if args.networks:
            write_fused_system(path, args.networks, development, measured)

    write_outputs(
        [(args.output, write_out), (args.json, lambda path: write_text(path, as_json(record)))]
    )
    show(gain_text(development, measured), screen)
    if applied is not None and args.output is not None:
        if applied.labelled:
            show("\n" + applied_text(applied, measured, args.replicates), screen)
        show(f"\nwritten to {output_name(args.output)}: {len(applied.fused):,} scores", screen)
    if args.networks:
        show(f"\nwritten to {args.output}: score recordings with it as with a network", screen)
    return 0


def _check(args: FuseOptions) -> None:
    """Raise UsageError for contradictory options."""
    if len(args.scores) < 2:
        raise UsageError("a fusion needs at least two systems. Give a score file per system.")
    if args.folds < MIN_FOLDS or args.seed < 0:
        raise UsageError(f"--folds must be at least {MIN_FOLDS}, and --seed must not be negative.")
    if args.apply and args.networks:
        raise UsageError("--apply and --networks write different files. Give one of them.")
    if bool(args.apply or args.networks) != (args.output is not None):
        raise UsageError(
            "--output must be given together with --apply (fused scores) or --networks (fused "
            "system)."
        )
    _check_count("--apply", args.apply, len(args.scores))
    _check_count("--networks", args.networks, len(args.scores))
    if args.networks and args.output:
        check_file(args.output)
        if args.output.suffix != ".json":
            raise UsageError(
                f"--output {args.output}: the name of a fused system must end in .json."
            )
        for network in args.networks:
            is_known = parse_name(network) is not None or is_shipped(network)
            if not is_known and not Path(network).exists():
                raise UsageError(f"there is no network {network}. Check the path.")
    inputs = [Path(word) for word in args.apply]
    inputs += [Path(word) for word in args.scores]
    check_inputs([*inputs, args.protocol])


def _check_count(option: str, words: Sequence[str], systems: int) -> None:
    if words and len(words) != systems:
        raise UsageError(
            f"{option} has {len(words)} values, but the fusion has {systems} systems. Give one per "
            "system, in the same order."
        )
