"""A network file opened for scoring: the network on its device and all scoring parameters.

Invariant: no code in the file is executed, and what cannot be computed as requested is refused
before anything is scored. A copy of a detector, by pickle or by `copy`, scores as its original
does, to the last bit, or is refused. A pickle holds no weights: it holds the path and digest of the
network's file, and the arguments of the detector.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from asdf.audio.recording_sources import Limits
from asdf.audio.speech import check_detector
from asdf.checkpoint.fused_file import (
    FusedSystem,
    check_network,
    is_fused_file,
    locate_network,
    read_fused_file,
)
from asdf.distributed.devices import keep_freed_memory
from asdf.distributed.gpus import gpu_memory
from asdf.errors import AsdfError, UsageError
from asdf.facts import DEMO_PREFIX
from asdf.interchange import describe_source, find_network, read_detector
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.networks import fixed_samples
from asdf.runs.files import digest_of
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
from asdf.scoring.fused import FusedScorer
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.settings.sections import USUAL_AUDIO, Network, Sections
from asdf.shipped import is_shipped, shipped_detector
from asdf.text import AnyPath

FileStates = list[tuple[str, int, int]]

DEMO_REMARK = (
    "this network was trained on the demo corpus, on computed voices: its scores say nothing about "
    "real recordings"
)


@dataclass(frozen=True)
class Origin:
    """The files and arguments that a detector was made from.

    Attributes:
        path: Path of the network, absolute.
        state: State of its files when they were read, see `read_state`.
        options: Other arguments of the detector, as plain values.
        networks: Paths of a fused system's networks; their digests are in its file.
    """

    path: Path
    state: FileStates
    options: dict[str, Any]
    networks: tuple[Path, ...] = ()

    def pickled(self) -> tuple[str, str, dict[str, Any]]:
        """Return path, digest and options, the content of a pickle.

        Raises:
            AsdfError: the network's file is gone or was changed since the detector was made.
        """
        if read_state(self.path, *self.networks) != self.state:
            raise AsdfError(
                f"this detector cannot be copied: {self.path} was deleted or rewritten after it "
                "was made. Make another detector from the current file."
            )
        return str(self.path), digest_of(self.path), self.options


def restore(make: Callable[..., Any], path: str, digest: str, options: dict[str, Any]) -> Any:
    """Return the detector of a pickle, made by `make(path, **options)`.

    Raises:
        AsdfError: the file is missing, or is not the one that the detector was made from.
    """
    if not Path(path).exists():
        raise AsdfError(
            f"a copy of a detector needs its network, but there is no {path}. A pickle names the "
            "file and holds no weights: copy the file there, or make the detector from it."
        )
    if digest_of(Path(path)) != digest:
        raise AsdfError(
            f"{path} is not the file that this copy of a detector was made from: it was rewritten "
            "later. Make the detector from the file."
        )
    return make(path, **options)


def copy_with(detector: Any, **options: Any) -> Any:
    """Return a detector of the same file, made with other `options`.

    Raises:
        AsdfError: the file is gone or was changed since the detector was made.
    """
    _, (make, path, digest, made_with), *reference = detector.__reduce__()
    copied = restore(make, path, digest, {**made_with, **options})
    if reference:
        copied.__setstate__(*reference)
    return copied


def read_state(*paths: Path) -> FileStates:
    """Return a state that changes if one of the files, or a file in a folder, is rewritten."""
    states: FileStates = []
    for path in paths:
        # Sorted: file systems list names in any order, and states are compared.
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                status = file.stat()
                name = str(file.relative_to(path))
                states.append((name, status.st_size, status.st_mtime_ns))
    return states


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
    max_seconds: float | None = None
    memory_limit: int | None = None
    engine: str = PACKED
    parts: bool = True
    speech_check: str = "built-in"
    columns: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """Limits on the size of a recording."""
        return Limits(self.max_seconds, self.memory_limit)


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
    for name in ("max_seconds", "memory_limit"):
        limit = getattr(options, name)
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
    system = read_fused_file(path) if is_fused_file(path) else None
    networks = []
    if system is not None:
        networks = [find_network(locate_network(network, path)) for network in system.networks]
    # The state is taken before reading, so that copies detect a file that changes meanwhile.
    state = read_state(path, *networks)
    scorer: WaveformScorer
    if system is not None:
        source = str(path)
        calibration = system.calibration
        scorer, settings, remark = _open_fused(path, system, networks, options, precision)
    else:
        source = describe_source(named, path)
        scorer, settings, entry = _read_scorer(path, options, precision)
        calibration = read_calibration(entry, path)
        remark = _remark_on_training(source, [settings])
        if is_shipped(path):
            remark = shipped_detector().describe()
            LOG.warning("%s", remark)
    if calibration is not None and not calibration.is_clear(math.inf):
        doubt = (
            "Its calibration does not support ratios above 3 for both classes, so all of its "
            "verdicts are 'undecided'."
        )
        LOG.warning("%s: %s", source, doubt)
        remark = f"{remark} {doubt}".strip()
    threads = choose_threads(options.threads, device, scorer.parameters)
    scorer.use_threads(threads)
    if precision.reason:
        LOG.warning("%s", precision.describe())
    # The values chosen for 'auto' and None, so that a copy elsewhere gives identical scores.
    folder = options.network_folder
    arguments = {
        **vars(options),
        "device": str(device),
        "network_folder": None if folder is None else str(Path(folder).absolute()),
        "threads": threads,
        "precision": precision.name if options.precision == AUTO else options.precision,
        "base": None if options.base is None else os.fspath(options.base),
    }
    threshold = _choose_threshold(options.threshold, calibration)
    origin = Origin(path.absolute(), state, arguments, tuple(networks))
    return OpenedNetwork(source, scorer, settings, calibration, threshold, threads, remark, origin)


def _open_fused(
    path: Path,
    system: FusedSystem,
    paths: Sequence[Path],
    options: Options,
    precision: ScoringPrecision,
) -> tuple[FusedScorer, Sections, str]:
    """Read the networks of a system; return its scorer, settings, and remark on its training."""
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
    remark = _remark_on_training(str(path), all_settings)
    return FusedScorer(scorers, system.fusion), first, remark


def _remark_on_training(source: str, all_settings: Iterable[Sections]) -> str:
    """Return, and log, a caution on networks trained only on synthesised voices; ''."""
    for settings in all_settings:
        # A training set may be several lists, joined by '+'.
        names = "+".join(settings.recipe.training_sets).split("+")
        if all(name.startswith(DEMO_PREFIX) for name in names):
            LOG.warning("%s: %s", source, DEMO_REMARK)
            return DEMO_REMARK
    return ""


def _read_scorer(
    path: Path, options: Options, precision: ScoringPrecision
) -> tuple[Scorer, Sections, Any]:
    """Read a network; return its scorer, its settings, and the entry of its calibration."""
    folder = None if options.network_folder is None else Path(options.network_folder)
    base = None if options.base is None else os.fspath(options.base)
    network, file = read_detector(path, folder, base)
    # Set here and not only for each score, because threads may score at the same time.
    network.eval()
    settings = file.to_sections(folder=folder)
    check_detector(settings.sad)
    scorer = Scorer(
        network,
        _adapt_rules(settings, network, options.full_length),
        precision,
        gpu_memory(precision.device),
        engine=options.engine,
        # It was read for this scorer alone, so that packed weights may replace its own.
        owns_network=True,
        audio=settings.audio,
    )
    return scorer, settings, file.calibration


def _adapt_rules(settings: Sections, network: torch.nn.Module, full_length: bool) -> Network:
    """Return the scoring rules of a detector: no cuts, and possibly other length limits."""
    # Cuts depend on the lengths of the other recordings of a list; a recording alone has none.
    rules = replace(settings.network, max_cut_proportion=0.0)
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
    factor = settings.audio.sample_rate / USUAL_AUDIO.sample_rate
    limits = {}
    for name in (
        "min_evaluation_utterance_length_in_samples",
        "max_evaluation_utterance_length_in_samples",
    ):
        limits[name] = round(getattr(defaults, name) * factor)
    return replace(rules, **limits)


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
