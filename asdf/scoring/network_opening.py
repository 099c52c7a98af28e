"""A network file opened for scoring: the network on its device and all scoring parameters.

Invariant: no code in the file is executed, and what cannot be computed as requested is refused
before anything is scored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from asdf.audio.recording_sources import Limits
from asdf.audio.speech import check_detector
from asdf.checkpoint.fused_file import check_network, is_fused_file, locate_network, read_fused_file
from asdf.distributed.cores import keep_freed_memory
from asdf.distributed.gpus import gpu_memory
from asdf.errors import AsdfError, UsageError
from asdf.facts import DEMO_PREFIX
from asdf.interchange import describe_source, find_network, read_detector
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.scoring.computing import (
    AUTO,
    PACKED,
    ScoringPrecision,
    choose_engine,
    choose_scoring_precision,
    choose_threads,
    find_device,
    set_threads,
)
from asdf.scoring.detector_copies import FileStates, Origin, read_state
from asdf.scoring.fused import FusedScorer
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.settings.sections import USUAL_AUDIO, Network, Sections
from asdf.shipped import is_shipped, shipped_detector
from asdf.text import AnyPath

DEMO_REMARK = (
    "this network was trained on the demo corpus, on computed voices: its scores say nothing about "
    "real recordings"
)


@dataclass(frozen=True)
class Options:
    """Options for opening a network, as in the arguments of `Detector`."""

    device: str | torch.device
    network_folder: AnyPath | None
    threads: int | None
    full_length: bool
    precision: str
    base: AnyPath | None
    threshold: float | None
    limits: Limits
    engine: str = PACKED
    parts: bool = True
    speech_check: str = "built-in"

    def as_arguments(
        self, device: torch.device, precision: ScoringPrecision, threads: int
    ) -> dict[str, Any]:
        """Return the arguments of a detector that gives identical scores elsewhere.

        Args:
            device, precision, threads: Values chosen for 'auto' and None.
        """
        folder = _network_folder(self)
        return {
            "device": str(device),
            "network_folder": None if folder is None else str(folder.absolute()),
            "threads": threads,
            "full_length": self.full_length,
            "precision": precision.name if self.precision == AUTO else self.precision,
            "engine": self.engine,
            "base": _base(self),
            "threshold": self.threshold,
            "max_seconds": self.limits.max_seconds,
            "memory_limit": self.limits.memory,
            "parts": self.parts,
            "speech_check": self.speech_check,
        }


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that is ready to score.

    Attributes:
        source: Path as given, or the repository on the hub with its commit.
        settings: Settings that the network was trained with.
        threshold: Threshold of verdicts; None: no verdicts.
        threads: Number of threads that the network computes with on a CPU.
        remark: Sentence on a limitation of all its scores; ''.
        origin: Origin of the network, for copies.
    """

    source: str
    scorer: WaveformScorer
    settings: Sections
    calibration: Calibration | None
    threshold: float | None
    threads: int
    remark: str
    origin: Origin


def open_network(named: AnyPath, options: Options) -> OpenedNetwork:
    """Open a network by its path or its repository on the hub, or a fused system.

    Raises:
        AsdfError: the network cannot be downloaded, or is not a detector; a network of a fused
            system is missing or was changed.
        UsageError: an option is not valid, or not supported on this machine.
    """
    limits = {"max_seconds": options.limits.max_seconds, "memory_limit": options.limits.memory}
    for name, limit in limits.items():
        # `limit <= 0` would let NaN pass.
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} = {limit!r}: give a positive number, or leave it out.")
    set_threads(options.threads)
    path = find_network(named)
    device = find_device(options.device)
    precision = choose_scoring_precision(options.precision, device)
    # Its result is not needed yet: a mistake is refused before the network is read.
    choose_engine(options.engine, precision)
    if device.type == "cpu":
        keep_freed_memory()
    if is_fused_file(path):
        opened = _open_fused(path, options, precision)
    else:
        # The state is taken before reading, so that copies detect a file that changes meanwhile.
        state = read_state(path)
        scorer, settings, entry = _read_scorer(path, options, precision)
        source = describe_source(named, path)
        remark = _remark_on_training(source, [settings.recipe.training_sets])
        if is_shipped(path):
            remark = shipped_detector().describe()
            LOG.warning("%s", remark)
        calibration = read_calibration(entry, path)
        opened = _Opened(source, scorer, settings, calibration, state, remark=remark)
    threads = choose_threads(options.threads, device, opened.scorer.parameters)
    opened.scorer.use_threads(threads)
    if precision.reason:
        LOG.warning("%s", precision.describe())
    arguments = options.as_arguments(device, precision, threads)
    return OpenedNetwork(
        opened.source,
        opened.scorer,
        opened.settings,
        opened.calibration,
        _choose_threshold(options.threshold, opened.calibration),
        threads,
        opened.remark,
        Origin(path.absolute(), opened.state, arguments, opened.networks),
    )


@dataclass(frozen=True)
class _Opened:
    """A network or a fused system that has been read.

    Attributes:
        state: State of its files, before they were read.
        networks: Paths of a fused system's networks.
        remark: Sentence on a limitation of all scores, as in `OpenedNetwork`.
    """

    source: str
    scorer: WaveformScorer
    settings: Sections
    calibration: Calibration | None
    state: FileStates
    networks: tuple[Path, ...] = ()
    remark: str = ""


def _open_fused(path: Path, options: Options, precision: ScoringPrecision) -> _Opened:
    system = read_fused_file(path)
    paths = [find_network(locate_network(network, path)) for network in system.networks]
    state = read_state(path, *paths)
    scorers = []
    all_settings = []
    for network, network_path in zip(system.networks, paths, strict=True):
        # The digest is checked first: nothing is built from a file that has changed.
        check_network(network, network_path, path)
        scorer, settings, _ = _read_scorer(network_path, options, precision)
        scorers.append(scorer)
        all_settings.append(settings)
    first = all_settings[0]
    if any(settings.sad != first.sad for settings in all_settings):
        raise AsdfError(
            f"the networks of {path} cut silence in different ways (their settings 'sad'), so "
            "they do not hear the same parts of a recording and cannot be scored together. Fuse "
            "their score files instead: python -m asdf fuse ... --apply ... --output OUT"
        )
    if any(settings.audio != first.audio for settings in all_settings):
        heard = dict.fromkeys(settings.audio.describe() for settings in all_settings)
        raise AsdfError(
            f"the networks of {path} do not hear the same parts of a recording: "
            f"{'; '.join(heard)}. They cannot be scored together. Fuse their score files instead: "
            "python -m asdf fuse ... --apply ... --output OUT"
        )
    LOG.info("%s: %s fusion of %d networks", path, system.fusion.method, len(scorers))
    fused = FusedScorer(scorers, system.fusion)
    lists = [settings.recipe.training_sets for settings in all_settings]
    remark = _remark_on_training(str(path), lists)
    return _Opened(str(path), fused, first, system.calibration, state, tuple(paths), remark)


def _remark_on_training(source: str, lists: Iterable[Sequence[str]]) -> str:
    """Return, and log, a caution on networks trained only on synthesised voices; ''."""
    for training_sets in lists:
        # A training set may be several lists, joined by '+'.
        names = "+".join(training_sets).split("+")
        if all(name.startswith(DEMO_PREFIX) for name in names):
            LOG.warning("%s: %s", source, DEMO_REMARK)
            return DEMO_REMARK
    return ""


def _read_scorer(
    path: Path, options: Options, precision: ScoringPrecision
) -> tuple[Scorer, Sections, Any]:
    """Read a network; return its scorer, its settings, and the entry of its calibration."""
    folder = _network_folder(options)
    network, file = read_detector(path, folder, _base(options))
    # Set here and not only for each score, because threads may score at the same time.
    network.eval()
    settings = file.to_sections(folder=folder)
    rules = settings.network
    rules = _adapt_rules(rules, settings.audio.sample_rate, network, options.full_length)
    check_detector(settings.sad)
    scorer = Scorer(
        network,
        rules,
        precision,
        gpu_memory(precision.device),
        engine=options.engine,
        # It was read for this scorer alone, so that packed weights may replace its own.
        owns_network=True,
        audio=settings.audio,
    )
    return scorer, settings, file.calibration


def _network_folder(options: Options) -> Path | None:
    return None if options.network_folder is None else Path(options.network_folder)


def _base(options: Options) -> str | None:
    return None if options.base is None else os.fspath(options.base)


def _adapt_rules(
    rules: Network, sample_rate: int, network: torch.nn.Module, full_length: bool
) -> Network:
    """Return the scoring rules of a detector: no cuts, and possibly other length limits."""
    # Cuts depend on the lengths of the other recordings of a list; a recording alone has none.
    rules = replace(rules, max_cut_proportion=0.0)
    if not full_length:
        return rules
    fixed = fixed_samples(network)
    if fixed is not None:
        raise UsageError(
            f"{type(network).__name__} only takes recordings of {fixed:,} samples, so it cannot "
            "score at full length. Leave that option out; longer recordings are then scored in "
            "windows."
        )
    defaults = Network()
    # The limits stay the same in seconds at any rate.
    factor = sample_rate / USUAL_AUDIO.sample_rate
    shortest = round(defaults.min_evaluation_utterance_length_in_samples * factor)
    longest = round(defaults.max_evaluation_utterance_length_in_samples * factor)
    return replace(
        rules,
        min_evaluation_utterance_length_in_samples=shortest,
        max_evaluation_utterance_length_in_samples=longest,
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
