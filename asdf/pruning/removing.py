"""A network with fewer channels, units and layers, as an ordinary network file.

Invariant: the remaining parts keep their weights, so removing nothing preserves the scores. The
settings describe the smaller architecture: nothing is masked, and every program that reads networks
of ASDF can read it.

Attention heads are not removed: in torchaudio and transformers, the total width of the heads equals
that of a frame.

Shapes: C channels, F units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError, UsageError
from asdf.networks.build import build_network
from asdf.networks.front_ends.architectures import Architecture
from asdf.pruning.importance import Importance, prunable_front_end

# Processors compute sizes that are multiples of it fastest.
_MULTIPLE = 8
_STEM = "front_end.model.feature_extractor.conv_layers."
_PROJECTION = "front_end.model.encoder.feature_projection."
_LAYERS = "front_end.model.encoder.transformer.layers."
# Trained weights of layers in a back end or the front end, one per state: the input of the first
# layer, and the output of each.
_PER_STATE = ("front_end.layer_sum.weights", "back_end.weights_k", "back_end.weights_v")


@dataclass(frozen=True)
class Sizes:
    """The remaining parts.

    Attributes:
        channels: Indices of the kept channels, for each convolution.
        units: Indices of the kept units, for each kept layer.
        layers: Indices of the kept layers.
    """

    channels: tuple[Tensor, ...]
    units: tuple[Tensor, ...]
    layers: tuple[int, ...]


def choose_sizes(
    importance: Importance, architecture: Architecture, channels: float, units: float, layers: int
) -> Sizes:
    """Return the most important parts.

    Args:
        channels, units: Proportions to keep, above 0 and up to 1; sizes are multiples of 8 if
            possible.
        layers: Number of layers to keep.

    Raises:
        UsageError: there are fewer layers.
    """
    if not 1 <= layers <= architecture.layers:
        raise UsageError(
            f"--layers {layers}: the front end has {architecture.layers} layers; keep 1 to "
            f"{architecture.layers} of them."
        )
    order = importance.layers.clone()
    if architecture.relative_positions:
        # The first layer has the position biases for all layers.
        order[0] = torch.inf
    chosen = order.argsort(descending=True, stable=True)[:layers].sort().values.tolist()
    return Sizes(
        tuple(_most_important(each, channels) for each in importance.channels),
        tuple(_most_important(importance.units[number], units) for number in chosen),
        tuple(chosen),
    )


def _most_important(values: Tensor, proportion: float) -> Tensor:
    count = max(1, round(proportion * len(values)))
    if count >= _MULTIPLE and count < len(values):
        count = round(count / _MULTIPLE) * _MULTIPLE
    # Stable, so that equal importance gives the same parts everywhere; then in their old order.
    return values.argsort(descending=True, stable=True)[:count].sort().values


def pruned_network(
    network: nn.Module, file: NetworkFile, sizes: Sizes
) -> tuple[nn.Module, NetworkFile]:
    """Return the network with the parts in `sizes`, in eval mode, and its file.

    The file has no calibration, error rates and training state, which were those of the original
    network.

    Raises:
        UsageError: the network has no prunable front end, or uses an inner layer of it while layers
            are to be removed.
        AsdfError: it has unsupported parts.
    """
    front_end = prunable_front_end(network)
    settings = file.to_sections()
    before = front_end.architecture
    if len(sizes.layers) < before.layers and isinstance(settings.front_end.layer, int):
        raise UsageError(
            f"--layers: the network uses layer {settings.front_end.layer} of its front end "
            "(front_end.layer), which would change. Leave --layers out."
        )
    after = _architecture(before, sizes)
    # The file has all weights: no pretrained weights fit the smaller network.
    front_end_settings = replace(settings.front_end, architecture=after.to_text(), weights=None)
    smaller = replace(settings, front_end=front_end_settings)
    made = build_network(smaller)
    state = _chosen_state(network.state_dict(), sizes)
    missing = [name for name in made.state_dict() if name not in state]
    extra = [name for name in state if name not in made.state_dict()]
    if missing or extra:
        raise AsdfError(
            f"pruning does not support parts of the network: {', '.join((missing + extra)[:4])}. "
            "Task heads and losses with parameters cannot be kept yet: train without them, or "
            "export the network unpruned."
        )
    try:
        made.load_state_dict(state)
    except RuntimeError as error:
        raise AsdfError(
            f"parts of {type(network).__name__} depend on sizes that would be removed: "
            f"{str(error).splitlines()[-1].strip()}"
        ) from error
    made.eval()
    return made, NetworkFile.from_network(made, smaller)


def _architecture(before: Architecture, sizes: Sizes) -> Architecture:
    conv_layers = []
    for (_, kernel, stride), channels in zip(before.conv_layers, sizes.channels, strict=True):
        conv_layers.append((len(channels), kernel, stride))
    return replace(
        before,
        conv_layers=tuple(conv_layers),
        feed_forward=len(sizes.units[0]),
        layers=len(sizes.layers),
    )


def _chosen_state(state: dict[str, Tensor], sizes: Sizes) -> dict[str, Tensor]:
    """Return the weights of the kept parts, by their names in the smaller network."""
    positions = {number: position for position, number in enumerate(sizes.layers)}
    states = torch.tensor([0, *(number + 1 for number in sizes.layers)])
    chosen = {}
    for name, tensor in state.items():
        if name.startswith(_STEM):
            number, _, rest = name.removeprefix(_STEM).partition(".")
            tensor = tensor[sizes.channels[int(number)]]
            # The first convolution takes the waveform.
            if rest == "conv.weight" and int(number):
                tensor = tensor[:, sizes.channels[int(number) - 1]]
        elif name.startswith(_PROJECTION):
            rest = name.removeprefix(_PROJECTION)
            if rest.startswith("layer_norm."):
                tensor = tensor[sizes.channels[-1]]
            elif rest == "projection.weight":
                tensor = tensor[:, sizes.channels[-1]]
        elif name.startswith(_LAYERS):
            number, _, rest = name.removeprefix(_LAYERS).partition(".")
            position = positions.get(int(number))
            if position is None:
                continue
            name = f"{_LAYERS}{position}.{rest}"
            tensor = _of_layer(tensor, rest, sizes.units[position])
        elif name in _PER_STATE and len(tensor) > len(states):
            tensor = tensor[states]
        chosen[name] = tensor.clone()
    return chosen


def _of_layer(tensor: Tensor, rest: str, units_F: Tensor) -> Tensor:
    """Return the kept weights of an encoder layer."""
    if rest.startswith("feed_forward.intermediate_dense."):
        return tensor[units_F]
    if rest == "feed_forward.output_dense.weight":
        return tensor[:, units_F]
    return tensor
