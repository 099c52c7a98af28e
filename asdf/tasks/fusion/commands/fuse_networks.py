"""The file of a fused system, written by `python -m asdf fuse --networks`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import check_file
from asdf.errors import UsageError
from asdf.hub import parse_name
from asdf.shipped import is_shipped
from asdf.tasks.fusion.commands.fuse_scores import DevelopmentSet

if TYPE_CHECKING:
    from asdf.metrics.calibration import Calibration
    from asdf.tasks.fusion.gain import FusionGain


def check_networks(networks: Sequence[str], out: Path) -> None:
    """Refuse missing networks before anything is read.

    Raises:
        UsageError: a network does not exist, or the output has another suffix.
    """
    check_file(out)
    if out.suffix != ".json":
        raise UsageError(f"--output {out}: the name of a fused system must end in .json.")
    for network in networks:
        if parse_name(network) is None and not is_shipped(network) and not Path(network).exists():
            raise UsageError(f"there is no network {network}. Check the path.")


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
