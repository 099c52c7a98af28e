"""Convert the scores of a network to log-likelihood ratios (LLR), with a threshold.

    python -m asdf calibrate network.pt recordings/ -o mine.pt       # with real/ and fake/ in it
    python -m asdf calibrate network.pt scores/epoch.4/dev.txt       # threshold at the EER
    python -m asdf calibrate output/system1 --output calibrated.pt   # best network of a run
    python -m asdf calibrate network.pt dev.txt --protocol P         # labels from a label file
    # also a threshold for the windows of long recordings
    python -m asdf calibrate network.pt dev.txt --windows genuine_recordings/
    # threshold for these costs
    python -m asdf calibrate network.pt dev.txt --costs p_spoof=0.05,cost_miss=1,cost_fa=10
    # only trials that are similar to the case
    python -m asdf calibrate network.pt dev.txt --protocol P --where "codec=amr|gsm,language=fr"

The mapping is learnt from a score file of this network, as a recipe or `score --scores` writes it,
or from a folder with real/ and fake/, whose recordings are scored. They should be similar to those
that will be judged, and none may be in the training set. The mapping, the threshold and a
description of the set are saved in the network file, where `score` and `asdf.Detector` find them.

--method selects the mapping (Morrison, 2018 and 2024), by default that with the lowest
cross-validated Cllr. LLRs are bounded by what the set supports (ELUB, Vergeer et al., 2016), and
have a bootstrap interval. --windows learns a threshold for the windows of long recordings, which
5 % of genuine ones of similar length fall below. If the recordings of the set are available,
`score` also reports whether a recording is unlike them.

Scores of another network and scores with reversed sign are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands import score
from asdf.commands.judged_files import ProtocolOptions, read_protocol_option, read_system_scores
from asdf.commands.options import NETWORK_HELP, Command, argument, option
from asdf.commands.outputs import check_file, check_inputs, show
from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.calibrating.learning import (
    choose_of_run,
    describe_learnt,
    describe_set,
    find_searched,
    learn_calibration,
    learn_windows,
    parse_where,
    show_doubt,
)
from asdf.hub import parse_name
from asdf.metrics.detection import ASVSPOOF5, with_costs
from asdf.metrics.llr_maps import AUTO, METHODS
from asdf.runs.streams import input_name
from asdf.scoring.columns import Learning, find_columns
from asdf.scoring.network_check import check_networks_of
from asdf.shipped import is_shipped

if TYPE_CHECKING:
    from asdf.metrics.calibration import Calibration


_OF_COLUMNS = [each.learns_with for each in find_columns().values() if each.learns_with]


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(ProtocolOptions, *_OF_COLUMNS):  # type: ignore[misc]
    """Options of the command, and those of columns that learn from the set."""

    network: str = argument(NETWORK_HELP, metavar="NETWORK")
    scores: Path | None = argument(
        "score file of the network: 'path label score' per line, or 'path score' with --protocol; "
        "- is standard input; or a folder with real/ and fake/, which is scored; optional if "
        "NETWORK is a run",
        metavar="SCORES",
        default=None,
    )
    folder: Path | None = option(
        "folder that the paths of trials are relative to, for scoring two of them as a check",
        metavar="F",
    )
    output: Path | None = option(
        "write to this file, without the training state, instead of into NETWORK",
        metavar="NETWORK2",
        short="-o",
        aliases=("--out",),
    )
    method: str = option("method that maps scores to LLRs", choices=(AUTO, *METHODS), default=AUTO)
    where: str | None = option(
        "use only trials that match: COLUMN=VALUE, with commas between several columns and | "
        "between several values",
        metavar="COLUMN=VALUE",
    )
    costs: str | None = option(
        "set the threshold for costs, not where both error rates are equal: p_spoof, the prior "
        "probability of spoof (0.05), cost_miss of rejecting bona fide speech (1), cost_fa of "
        "accepting a spoof (10)",
        metavar="NAME=X,...",
    )
    windows: str | None = option(
        "learn a threshold for the windows of long recordings from these genuine recordings; lines "
        "of a list with label 0 are ignored",
        metavar="FOLDER|LIST",
    )
    windows_rate: float | None = option(
        "proportion of genuine recordings that may have a window below this threshold (0.05)",
        metavar="P",
    )


COMMAND = Command("calibrate", __doc__, CalibrateOptions)


def main(arguments: list[str]) -> int:
    """Calibrate a network file; return 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: the network or the scores cannot be read or used, or the result cannot be
            written.
    """
    args = COMMAND.read(arguments)
    cost = with_costs(ASVSPOOF5, args.costs) if args.costs else None
    if args.windows_rate is not None and args.windows is None:
        raise UsageError("--windows-rate needs --windows with genuine recordings. Give both.")
    if args.windows_rate is not None and not 0 < args.windows_rate < 1:
        raise UsageError(
            f"--windows-rate {args.windows_rate:g}: give a proportion above 0 and below 1."
        )
    if args.output:
        check_file(args.output)
    elif parse_name(args.network) or is_shipped(args.network):
        where = "part of the installation" if is_shipped(args.network) else "on the hub"
        raise UsageError(
            f"{args.network} is {where} and cannot be overwritten. Give another file with --output."
        )
    wanted = parse_where(args.where) if args.where else {}
    if args.scores is not None and args.scores.is_dir():
        scored = Path(args.output or args.network).with_name(f"{args.scores.resolve().name}.scores")
        # The lines of the scores, and verdicts of an earlier calibration, would bury the result.
        with redirect_stdout(None):
            status = score.main([args.network, str(args.scores), "--scores", str(scored)])
        if status:
            return status
        args = replace(args, scores=scored, folder=Path())
    network, path = choose_of_run(args.network, args.scores)
    # Checked before the scores are read, because standard input can be read only once.
    check_inputs([path, args.protocol])
    protocol = read_protocol_option(args)
    scores = read_system_scores(path, protocol, args.ignore_others)
    # torch is needed from here on, and takes seconds to import.
    read = _read_network(network, args.output)
    windows_rate = args.windows_rate or 0.05
    searched = None
    if args.windows:
        # Before the work: recordings that are too few or too short are known at once.
        searched = find_searched(network, args.windows, windows_rate)
    check_networks_of([network], [path], [scores], args.folder)
    learnt_from = describe_set(path, scores, protocol.trials, wanted, read.evaluations)
    try:
        calibration, cllrs = learn_calibration(learnt_from, cost, args.method)
    except AsdfError as error:
        raise AsdfError(f"{input_name(path)}: {error}") from None
    out = args.output or Path(network)
    show(describe_learnt(path, learnt_from, calibration, cllrs))
    learning = Learning(network, path, args.folder, learnt_from, read.is_fused, args)
    for column in find_columns().values():
        calibration = column.learn(calibration, learning)
    if searched is not None:
        calibration = learn_windows(network, calibration, searched, windows_rate)
    # Once, at the end: a stop before leaves the network as it was.
    read.write(out, calibration)
    show(f"written to {out}{read.remark}")
    show_doubt(calibration)
    return 0


@dataclass(frozen=True)
class _Read:
    """The network, or the fused system, to calibrate.

    Attributes:
        write: Function that writes it with a calibration.
        evaluations: Records of the evaluations during training, as far as its file has them.
        remark: Remark on the written file, after its name.
        is_fused: Whether it is a fused system.
    """

    write: Callable[[Path, Calibration], None]
    evaluations: Sequence[Mapping[str, Any]] = ()
    remark: str = ""
    is_fused: bool = False


def _read_network(network: str, output: Path | None) -> _Read:
    """Read the network, or the fused system.

    Raises:
        UsageError: a fused system is to be written to another folder, from which its paths are not
            valid.
        AsdfError: it cannot be read.
    """
    from asdf.checkpoint.fused_file import is_fused_file, read_fused_file, write_fused_file
    from asdf.checkpoint.network_file import write_network_file
    from asdf.checkpoint.network_reading import read_network_file
    from asdf.interchange import find_network, read_detector

    path = Path(network)
    if is_fused_file(path):
        system = read_fused_file(path)
        if output and output.resolve().parent != path.resolve().parent:
            raise UsageError(
                f"--output {output}: a fused system contains paths relative to its folder. Write "
                f"to a file in {path.parent}."
            )

        def write_system(out: Path, calibration: Calibration) -> None:
            write_fused_file(out, replace(system, calibration=calibration))

        return _Read(write_system, is_fused=True)
    if parse_name(network) is None:
        # Unchanged: LoRA updates are not merged.
        file = read_network_file(find_network(network))
    else:
        file = read_detector(network)[1]
    if file.settings is None:
        raise AsdfError(
            f"{network} contains no settings, so its architecture is unknown. Convert it to a "
            f"network of ASDF first: python -m asdf import {network} --output OUT"
        )

    def write(out: Path, calibration: Calibration) -> None:
        # The written network is for scoring: with the optimiser's state it would be three times as
        # large.
        written = file.without_training() if output else file
        written.calibration = calibration.content()
        write_network_file(out, written)

    remark = ""
    if output is None and file.optimiser_state is not None:
        remark = (
            ", which still contains its training state; --output NETWORK2 writes a smaller file "
            "without it, for scoring"
        )
    # A file of another program may contain any type here.
    progress = file.progress if isinstance(file.progress, Mapping) else {}
    evaluations = progress.get("evaluations")
    return _Read(write, evaluations if isinstance(evaluations, list | tuple) else (), remark)
