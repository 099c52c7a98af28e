"""Make a network smaller by removing the least important parts of its front end.

    python -m asdf prune net.pt dev.txt -o small.pt                         # half of the units
    python -m asdf prune net.pt dev.txt -o small.pt --units 0.5 --channels 0.75 --layers 12
    python -m asdf prune net.pt dev.txt -o small.pt --measure eval.txt      # EER on another list

Feed-forward units, convolution channels and complete encoder layers are removed, which reduces both
file size and computing time. Importance is measured on LIST, which needs labels: for units and
channels as the first-order change of the loss without them (Molchanov et al., 2019), for layers as
the change of direction between input and output (Men et al., 2024). A few hundred recordings
similar to those that will be judged are enough; do not use the evaluation set.

The output states size, time and EER before and after. To recover accuracy, train the file further
(front_end.weights = 'small.pt' for its front end) or use distillation. The file has no calibration:
calibrate it again. wav2vec 2.0, HuBERT and WavLM front ends are supported. Attention heads are not
removed, because the heads of a layer together have the width of a frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.named_recordings import read_recordings
from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.interchange.commands.import_network import check_new
from asdf.runs.progress import track
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from torch import Tensor, nn

    from asdf.networks.front_ends.architectures import Architecture
    from asdf.pruning import Effect, Sizes
    from asdf.settings.sections import Sections


def _check_proportion(value: float) -> None:
    if not 0 < value <= 1:
        raise UsageError(f"{value:g} is not a proportion. Give a number above 0, at most 1.")


@dataclass(frozen=True, kw_only=True)
class PruneOptions(WeightsOptions):
    """Options of the command."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    trials: str = argument(
        "list with labels, or name of a corpus, on which importance is measured", "LIST"
    )
    output: Path | None = option("network file to write", "OUT", short="-o", needed=True)
    folder: Path | None = option("folder that paths in lists are relative to (their own folders)")
    units: float = option(
        "proportion of feed-forward units to keep",
        "P",
        default=0.5,
        check=_check_proportion,
    )
    channels: float = option(
        "proportion of convolution channels to keep",
        "P",
        default=1.0,
        check=_check_proportion,
    )
    layers: int | None = option("number of encoder layers to keep (all)", "N")
    measure: str | None = option("list with labels for measuring both networks (LIST)", "LIST2")


COMMAND = Command("prune", __doc__, PruneOptions)


def main(arguments: list[str]) -> int:
    """Prune a network and print the effect; return 0.

    Raises:
        UsageError: a mistake in the command line, or a network without parts to remove.
        AsdfError: the network or a recording cannot be read, or OUT cannot be written.
    """
    args = COMMAND.read(arguments)
    assert args.output is not None  # it is needed
    # Refused before the measuring, which takes minutes.
    check_new(args.output)
    lists = [read_recordings(args.trials, args.folder)]
    if args.measure is not None:
        lists.append(read_recordings(args.measure, args.folder))
    # torch is needed from here on, and takes seconds to import.
    from asdf.checkpoint.network_file import write_network_file
    from asdf.interchange import read_detector
    from asdf.pruning import (
        choose_sizes,
        measure_effect,
        measure_importance,
        prunable_front_end,
        pruned_network,
    )
    from asdf.scoring.usual_audio import check_usual

    network, file = read_detector(args.network, args.network_folder, args.base)
    settings = file.to_sections()
    check_usual(settings.audio, "Pruning")
    architecture = prunable_front_end(network).architecture
    trials = _read_trials(lists[0], network, settings)
    importance = measure_importance(network, track(trials, len(trials), "measuring"))
    layers = architecture.layers if args.layers is None else args.layers
    sizes = choose_sizes(importance, architecture, args.channels, args.units, layers)
    pruned, smaller = pruned_network(network, file, sizes)
    measured = trials if args.measure is None else _read_trials(lists[1], network, settings)
    before, after = measure_effect((network, pruned), measured, settings.network.score)
    write_network_file(args.output, smaller)
    show(f"written to {args.output}: {_describe_sizes(architecture, sizes)}")
    show(_describe_effect(before, after, lists[-1], args.measure is None))
    return 0


def _read_trials(
    trials: TrialList, network: nn.Module, settings: Sections
) -> Sequence[tuple[Tensor, int]]:
    """Return the labelled recordings as they are scored.

    Raises:
        UsageError: there are none.
        AsdfError: one cannot be read.
    """
    import torch

    from asdf.audio.speech import read_speech
    from asdf.networks.interface import repeat_short
    from asdf.scoring.scorer import scored_length_of

    length = scored_length_of(network, settings.network)
    read = []
    for index, label in enumerate(trials.labels.tolist()):
        if label in (0, 1):
            path = trials.path(index)
            waveform = read_speech(path, settings.sad, 0, length.max_samples)
            heard_1T = repeat_short(torch.from_numpy(waveform)[None], length.min_samples)
            read.append((heard_1T[0], label))
    if not read:
        raise UsageError(f"{trials.name}: no trial has a label, by which importance is measured.")
    return read


def _describe_sizes(before: Architecture, sizes: Sizes) -> str:
    """Return the remaining numbers of units, channels and layers."""
    channels = sum(map(len, sizes.channels))
    all_channels = sum(channels for channels, _, _ in before.conv_layers)
    gone = [str(each + 1) for each in range(before.layers) if each not in sizes.layers]
    words = (
        f"{len(sizes.units[0]):,} of {before.feed_forward:,} units per layer, {channels:,} of "
        f"{all_channels:,} channels, {len(sizes.layers)} of {before.layers} layers"
    )
    return f"{words}, without {', '.join(gone)}" if gone else words


def _describe_effect(before: Effect, after: Effect, trials: TrialList, is_same: bool) -> str:
    """Return size, time and EER of both networks, in words."""
    size = f"{before.parameters:,} to {after.parameters:,} parameters"
    share = after.parameters / before.parameters
    speed = f"{before.milliseconds:.1f} to {after.milliseconds:.1f} ms for 4.04 s on this CPU"
    lines = [f"{size} ({100 * share:.0f} %); {speed}"]
    if before.eer is not None and after.eer is not None:
        own = ", by which parts were chosen" if is_same else ""
        rates = f"{100 * before.eer:.2f} to {100 * after.eer:.2f} %"
        lines.append(f"EER on {trials.name}{own}: {rates}, before any further training")
    return "\n".join(lines)
