"""Common parts of commands that measure detectors on altered recordings: inputs, result files.

Invariant: an error in a list is found before any work; all results of a study are in its folder.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import AsdfError, UsageError
from asdf.runs.files import write_text
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.commands.options import WeightsOptions
    from asdf.extras.robustness import Rival


def check_workers(workers: int) -> None:
    """Raise a UsageError for an invalid number of processes."""
    if workers < 0:
        raise UsageError(f"--workers {workers}: give 0 or more.")


def check_labels(trials: TrialList, what: str) -> None:
    """Refuse a list that gives no error rates.

    Args:
        what: Name of the measurement with its verb, such as 'robustness is'.

    Raises:
        AsdfError: a recording has no label, or a class has fewer than two recordings.
    """
    counts = [int((trials.labels == label).sum()) for label in (1, 0)]
    if min(counts) < 2 or sum(counts) < len(trials):
        raise AsdfError(
            f"{what} measured by error rates, so each recording of {trials.name} needs a label, "
            f"and each class needs at least two recordings (bona fide {counts[0]}, spoof "
            f"{counts[1]}, without a label {len(trials) - sum(counts)})."
        )


def open_rivals(
    networks: Sequence[str], args: WeightsOptions, device: str, full_length: bool
) -> list[Rival]:
    """Open networks, each with a distinct name, based on the stem of its file.

    Raises:
        AsdfError: a file is not a network.
        UsageError: a device, folder or name does not exist, or a network is not of 16 kHz.
    """
    from asdf.extras.robustness import Rival
    from asdf.scoring.detector import Detector
    from asdf.scoring.made_by import network_digest
    from asdf.scoring.usual_audio import check_usual

    rivals: list[Rival] = []
    names: list[str] = []
    for network in networks:
        detector = Detector(network, device, args.network_folder, None, full_length, base=args.base)
        check_usual(detector.settings.audio, f"A measurement of {network} on changed copies")
        stem = Path(network).stem or "network"
        names.append(stem)
        # Networks in several folders may have the same file name.
        name = stem if names.count(stem) == 1 else f"{stem}-{names.count(stem)}"
        rivals.append(Rival(name, detector, network_digest(network)))
    return rivals


def made_by(command: str, arguments: Sequence[str], rivals: Sequence[Rival]) -> dict[str, str]:
    """Return the provenance of a study: version, command, and digests of networks."""
    facts = {"ASDF": VERSION, "command": f"asdf-antispoofing {command} {shlex.join(arguments)}"}
    for rival in rivals:
        facts[f"SHA-256 of {rival.name}"] = rival.digest
    return facts


def write_results(folder: Path, contents: Mapping[str, str]) -> None:
    """Write the files of a study, by name.

    Raises:
        AsdfError: one of them cannot be written.
    """
    for name, content in contents.items():
        write_text(folder / name, content)
