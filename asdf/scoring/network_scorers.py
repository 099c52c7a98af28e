"""The networks of a file, or of a fused system, read as scorers that torch computes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

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
from asdf.metrics.calibration import read_calibration
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.scoring.computing import (
    ScoringPrecision,
    choose_engine,
    choose_scoring_precision,
    choose_threads,
    find_device,
    set_threads,
)
from asdf.scoring.opened_network import OpenedNetwork, Options, read_state
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveform_scorer import FusedScorer, WaveformScorer
from asdf.settings.sections import USUAL_AUDIO, Network, Sections
from asdf.shipped import is_shipped, shipped_detector
from asdf.text import AnyPath

DEMO_REMARK = (
    "this network was trained on the demo corpus, on computed voices: its scores say nothing about "
    "real recordings"
)


def read_scorer(named: AnyPath, options: Options) -> OpenedNetwork:
    """Read a network, or the networks of a fused system. Raises as `open_network`."""
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
        scorer, settings, entry = _read_network(path, options, precision)
        calibration = read_calibration(entry, path)
        remark = _remark_on_training(source, [settings])
        if is_shipped(path):
            remark = shipped_detector().describe()
            LOG.warning("%s", remark)
    threads = choose_threads(options.threads, device, scorer.parameters)
    scorer.use_threads(threads)
    if precision.reason:
        LOG.warning("%s", precision.describe())
    return OpenedNetwork(
        path,
        state,
        source,
        scorer,
        settings,
        calibration,
        str(device),
        threads,
        remark,
        tuple(networks),
    )


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
        scorer, settings, _ = _read_network(network_path, options, precision)
        scorers.append(scorer)
        all_settings.append(settings)
    first = all_settings[0]
    if any((settings.sad, settings.audio) != (first.sad, first.audio) for settings in all_settings):
        heard = dict.fromkeys(
            f"{settings.audio.describe()}, sad.mode = {settings.sad.mode!r}"
            for settings in all_settings
        )
        raise AsdfError(
            f"the networks of {path} do not hear the same parts of a recording: "
            f"{'; '.join(heard)}. Fuse their score files instead: python -m asdf fuse ... --apply "
            "... --output OUT"
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


def _read_network(
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
    # The limits stay the same in seconds at any rate.
    factor = settings.audio.sample_rate / USUAL_AUDIO.sample_rate
    names = (f"{end}_evaluation_utterance_length_in_samples" for end in ("min", "max"))
    return replace(rules, **{name: round(getattr(Network(), name) * factor) for name in names})
