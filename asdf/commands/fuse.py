"""Fuse several systems into one: weights from their score files of a development set.

    python -m asdf fuse a_dev.txt b_dev.txt c_dev.txt --on dev  # is it worth it?
    python -m asdf fuse a_dev.txt b_dev.txt --apply a_eval.txt b_eval.txt --out fused_eval.txt
    python -m asdf fuse a_dev.txt b_dev.txt --networks a.pt b.pt --out fused.json
    python -m asdf score fused.json call.mp3

All score files are of the same trials, one file per system. The first line above shows the error
rates of each system, of the fusion, and a test of the difference. The fusion is measured by
cross-validation there: no trial is scored with weights that were fitted to it or, with --protocol
naming speakers, to another trial of its speaker. With --apply the weights of all trials make fused
scores of other files of the same systems, in the same order. With --networks they and the networks
become a system that scores recordings, for every command that takes a network.

--method logistic (default): the weighted sum of the scores that is the best log-likelihood ratio;
mean: the mean of the systems' scores, each calibrated by itself; rank: the mean of their ranks in
the development set.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.fuse_networks import check_networks, write_fused_system
from asdf.commands.fuse_scores import Applied, DevelopmentSet, read_applied, read_development
from asdf.commands.fuse_text import applied_text, gain_record, gain_text
from asdf.commands.options import add_replicates, check_replicates, command_parser
from asdf.commands.outputs import check_inputs, output_name, show, text_stream, write_outputs
from asdf.commands.score_files import add_protocol
from asdf.commands.whose_scores import check_networks_of
from asdf.errors import UsageError
from asdf.runs.files import write_text
from asdf.runs.streams import is_stdout

if TYPE_CHECKING:
    from asdf.metrics.fusion_gain import FusionGain

METHODS = ("logistic", "mean", "rank")
MIN_FOLDS = 2


def main(arguments: list[str]) -> int:
    """Fit and measure a fusion, and apply it; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: files cannot be read, written or fused.
    """
    args = _parser().parse_args(arguments)
    _check(args)
    screen = text_stream([args.out, args.json])
    development = read_development(args)
    if args.networks:
        check_networks_of(args.networks, development.paths, development.scores, args.folder)
    measured = _measure(args, development)
    applied = None
    if args.apply:
        applied = read_applied(args.apply, development, measured.fusion)
    write_outputs(
        [
            (args.out, lambda path: _write_out(path, args, development, measured, applied)),
            (args.json, lambda path: write_text(path, _json(args, development, measured))),
        ]
    )
    show(gain_text(development, measured), screen)
    if applied is not None:
        if applied.labelled:
            show("\n" + applied_text(applied, measured, args.replicates), screen)
        show(f"\nwritten to {output_name(args.out)}: {len(applied.fused):,} scores", screen)
    if args.networks:
        show(f"\nwritten to {args.out}: score recordings with it as with a network", screen)
    return 0


def _write_out(
    path: Path,
    args: argparse.Namespace,
    development: DevelopmentSet,
    measured: FusionGain,
    applied: Applied | None,
) -> None:
    if applied is not None:
        applied.write(path)
    if args.networks:
        write_fused_system(path, args.networks, development, measured)


def _measure(args: argparse.Namespace, development: DevelopmentSet) -> FusionGain:
    from asdf.metrics.folds import make_folds
    from asdf.metrics.fusion_gain import measure_gain

    first = development.scores[0]
    speakers = development.speakers
    folds = make_folds(first.ids, first.labels, speakers, args.folds, args.seed)
    return measure_gain(
        development.scores,
        development.names,
        args.method,
        folds,
        speakers=speakers,
        replicates=args.replicates,
        seed=args.seed,
    )


def _json(args: argparse.Namespace, development: DevelopmentSet, measured: FusionGain) -> str:
    record = gain_record(development, measured) | {"folds": args.folds, "seed": args.seed}
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("fuse", __doc__, "SCORES SCORES ... [options]")
    parser.add_argument(
        "scores",
        nargs="+",
        metavar="[NAME=]SCORES",
        help="score files of the development set, one per system; or, with --on, folders of score "
        "files such as a run's scores/epoch.4",
    )
    parser.add_argument(
        "--on",
        default="",
        metavar="SET",
        help="name of the development set; of folders the file SET.txt is taken",
    )
    add_protocol(parser)
    parser.add_argument(
        "--method", choices=METHODS, default="logistic", help="how scores are fused (logistic)"
    )
    parser.add_argument(
        "--apply",
        nargs="+",
        metavar="SCORES",
        help="fuse these score files of another set too: one per system, in the same order",
    )
    parser.add_argument(
        "--networks",
        nargs="+",
        metavar="NETWORK",
        help="the networks that made the score files, one per system, in the same order",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="F",
        help="folder that the trials' paths are relative to: two of them are scored, to check that "
        "score files without a digest are of --networks",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="OUT",
        help="the fused score file of --apply (- is standard output), or the fused system of "
        "--networks (.json)",
    )
    parser.add_argument(
        "--folds", type=int, default=5, metavar="N", help="folds of the cross-validation (5)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of folds and test (0)")
    add_replicates(parser, "replicates of the paired bootstrap (1000); 0: no test")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything with all digits")
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    if len(args.scores) < 2:
        raise UsageError("a fusion is of two systems or more: name their score files.")
    check_replicates(args.replicates, may_be_none=True)
    if args.folds < MIN_FOLDS or args.seed < 0:
        raise UsageError(f"--folds is {MIN_FOLDS} or more, and --seed not negative.")
    if args.apply and args.networks:
        raise UsageError("--apply and --networks write different files: use one at a time.")
    if (args.apply is None and args.networks is None) != (args.out is None):
        raise UsageError(
            "--out goes with --apply (the fused score file) or --networks (the fused system)."
        )
    _check_count("--apply", args.apply, len(args.scores))
    _check_count("--networks", args.networks, len(args.scores))
    if args.networks:
        check_networks(args.networks, args.out)
    inputs = [Path(word) for word in (args.apply or [])]
    inputs += [Path(word) for word in args.scores]
    check_inputs([*inputs, args.protocol])
    read = {path.resolve() for path in inputs}
    for path in (args.out, args.json):
        if path is not None and not is_stdout(path) and path.resolve() in read:
            raise UsageError(f"{path} is an input: write to another file.")


def _check_count(option: str, words: Sequence[str] | None, systems: int) -> None:
    if words is not None and len(words) != systems:
        raise UsageError(
            f"{option} has {len(words)} and the fusion {systems} systems: name one for each, in "
            "the same order."
        )
