"""A network file opened for scoring: the network on its device, and all that its scores depend on.

Invariant: nothing in the file is run, and what cannot be computed as requested is refused before
anything is scored.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from asdf.audio.sources import Limits
from asdf.audio.speech_activity import check_detector
from asdf.distributed.resources import gpu_memory
from asdf.errors import UsageError
from asdf.interchange import describe_source, find_network, read_detector
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.scoring.copies import Origin, read_state
from asdf.scoring.device import find_device, set_threads
from asdf.scoring.precision import choose_scoring_precision
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Network, Sections


@dataclass(frozen=True)
class Options:
    """How a network is opened; as the arguments of `Detector`."""

    device: str | torch.device
    network_folder: str | os.PathLike[str] | None
    threads: int | None
    full_length: bool
    precision: str
    base: str | os.PathLike[str] | None
    threshold: float | None
    limits: Limits


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that scores.

    Attributes:
        source: the path as it was named, or the repository of the hub with its commit.
        settings: those that it was trained with.
        threshold: of verdicts; None: no verdicts.
        origin: from what it was opened, for copies.
    """

    source: str
    scorer: Scorer
    settings: Sections
    calibration: Calibration | None
    threshold: float | None
    origin: Origin


def open_network(named: str | os.PathLike[str], options: Options) -> OpenedNetwork:
    """Open the network that is named: by a path, or as a repository of the hub.

    Raises:
        AsdfError: it cannot be downloaded, or is no detector.
        UsageError: an option cannot be meant, or not be done here.
    """
    _check_limits(options.limits)
    threads = set_threads(options.threads)
    path = find_network(named)
    # Before it is read: a copy of what is written meanwhile is refused.
    state = read_state(path)
    folder = None if options.network_folder is None else Path(options.network_folder)
    base = None if options.base is None else os.fspath(options.base)
    network, file = read_detector(path, folder, base)
    # Here, not only while it scores: threads may score at the same time.
    network.eval()
    settings = file.to_sections(folder=folder)
    calibration = read_calibration(file.calibration, path)
    device = find_device(options.device)
    precision = choose_scoring_precision(options.precision, device)
    rules = _adapt_rules(settings.network, network, options.full_length)
    check_detector(settings.sad)
    fixed_threads = None if options.threads is None else threads
    scorer = Scorer(network, rules, precision, gpu_memory(device), fixed_threads)
    if precision.reason:
        LOG.warning("%s", precision.describe())
    # What 'auto' and None stood for: a copy is to score the same bits elsewhere too.
    arguments = {
        "device": str(device),
        "network_folder": None if folder is None else str(folder.absolute()),
        "threads": threads,
        "full_length": options.full_length,
        "precision": options.precision,
        "base": base,
        "threshold": options.threshold,
        "max_seconds": options.limits.max_seconds,
        "memory_limit": options.limits.memory,
    }
    threshold = _choose_threshold(options.threshold, calibration)
    origin = Origin(path.absolute(), state, arguments)
    source = describe_source(named, path)
    return OpenedNetwork(source, scorer, settings, calibration, threshold, origin)


def _adapt_rules(settings: Network, network: torch.nn.Module, full_length: bool) -> Network:
    """Return the rules of scoring for a detector: nothing is cut, and the limits may be others."""
    rules = replace(settings, max_cut_proportion=0.0)
    if not full_length:
        return rules
    fixed = fixed_samples(network)
    if fixed is not None:
        raise UsageError(
            f"{type(network).__name__} takes recordings of {fixed:,} samples and no others: it "
            "cannot score at full length. Leave that out; a longer recording is then scored in "
            "windows."
        )
    defaults = Network()
    return replace(
        rules,
        min_evaluation_utterance_length_in_samples=(
            defaults.min_evaluation_utterance_length_in_samples
        ),
        max_evaluation_utterance_length_in_samples=(
            defaults.max_evaluation_utterance_length_in_samples
        ),
    )


def _choose_threshold(threshold: float | None, calibration: Calibration | None) -> float | None:
    """Return the threshold of verdicts: the requested one, else the calibration's; None: none."""
    if threshold is None:
        return None if calibration is None else calibration.threshold
    if not math.isfinite(threshold):
        raise UsageError(
            f"threshold = {threshold:g}: every recording would get the same verdict. Give a finite "
            "number."
        )
    return float(threshold)


def _check_limits(limits: Limits) -> None:
    for name, limit in (("max_seconds", limits.max_seconds), ("memory_limit", limits.memory)):
        # Not `limit <= 0`: of NaN that is False too.
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} = {limit!r}: give a positive number, or leave it out.")
