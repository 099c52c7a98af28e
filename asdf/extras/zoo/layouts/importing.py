"""Import of a detector in any known layout, with the content of its network file.

Invariant: each number of the network is the file's and finite, or is reported as irrelevant for
scores. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.attached_parts import LOSS, DescribedNetwork, add_loss
from asdf.checkpoint.base_weights import by_module, check_layers, first_names, load_layers
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import read_safetensors
from asdf.checkpoint.weights_file import read_weights_file, state_dict_in
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.classifier_folder import Recognised
from asdf.extras.zoo.layouts.recognition import TRAINING, recognise
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.runs.log import LOG
from asdf.settings.sections import FRONT_ENDS

_MEAN = "running_mean"


@dataclass(frozen=True)
class Imported:
    """An imported detector.

    Attributes:
        network: Network in eval mode, on the CPU.
        file: Content of its network file.
        recognised: Layout in which it was read, and what was left out.
    """

    network: nn.Module
    file: NetworkFile
    recognised: Recognised


def import_detector(
    path: Path,
    chosen: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    bona_fide: Sequence[str] = (),
) -> Imported:
    """Read a detector in any layout that `recognise` knows, from a file or a folder.

    Args:
        chosen: Settings by full name, which override those of the file.
        folder: Folder with the module of your own network class.
        bona_fide: Bona fide classes, as in `recognise`.

    Raises:
        UsageError: there is no such `folder`, or no such class.
        AsdfError: the file cannot be read, is not a detector, describes its network incompletely,
            lacks layers, or has numbers that are not finite.
    """
    read = recognise(path, chosen or {}, bona_fide)
    read.filled.extend(_fill_counts(read.state))
    source = str(path)
    wrong = [
        read.own_names.get(name, name)
        for name, tensor in read.state.items()
        if tensor.is_floating_point() and not tensor.isfinite().all()
    ]
    if wrong:
        raise AsdfError(
            f"{source} holds values that are not finite, so it would give no scores. They are in "
            f"{len(wrong)} layers: {first_names(wrong)}. It is damaged, or its training diverged: "
            "use another checkpoint."
        )
    described = DescribedNetwork(
        read.settings, read.state, source, folder, own_names=read.own_names
    )
    # The loss is attached afterwards, so its layers are not expected yet.
    network = replace(described, state=LOSS.without(read.state)).build()
    add_loss(network, read.loss, described)
    load_layers(network, read.state, source)
    file = NetworkFile.from_network(
        network, read.settings, calibration=read.calibration, evaluation=read.evaluation
    )
    return Imported(network.eval(), file, read)


def load_detector_weights(network: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Load a whole network's weights from a detector in any layout that `import_detector` reads.

    A state dict of the network itself is read too, for any class.

    Returns:
        Names of layers in the file that the network does not use.

    Raises:
        AsdfError: the file cannot be read, or does not fit the network layer by layer.
    """
    path = Path(path)
    try:
        read = recognise(path, _settings_of(network))
    except AsdfError:
        if not path.is_file():
            raise
        is_safe = path.suffix == ".safetensors"
        state = (
            read_safetensors(path)[0] if is_safe else state_dict_in(read_weights_file(path), path)
        )
        _fill_counts(state)
        if not network.state_dict().keys() <= state.keys():
            raise
        load_layers(network, state, str(path))
        return ()
    _fill_counts(read.state)
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    kind = type(network).__name__
    check_layers(shapes, read.state, kind, str(path), own_names=read.own_names)
    load_layers(network, read.state, str(path))
    # Entries about the training that made a file are not layers.
    kept = [names for reason, names in read.left_out.items() if reason != TRAINING]
    left_out = [name for names in kept for name in names]
    if left_out:
        LOG.info("not loaded from %s: %s", path, by_module(left_out))
    return tuple(left_out)


def _settings_of(network: nn.Module) -> dict[str, Any]:
    """Return the settings of a network that files do not state."""
    front_end = getattr(network, "front_end", None)
    if not isinstance(front_end, FrontEnd):
        return {}
    settings: dict[str, Any] = {"front_end.architecture": front_end.architecture_setting}
    if front_end.masking is not None:
        # The vector of masked frames is then one of its layers.
        settings["front_end.time_mask_proportion"] = front_end.masking.time_proportion
    if not isinstance(front_end, Wav2Vec2FrontEnd):
        named = {path.rpartition(".")[2]: name for name, path in FRONT_ENDS.items()}
        if type(front_end).__name__ in named:
            settings["front_end.front_end_class"] = named[type(front_end).__name__]
    return settings


def _fill_counts(state: dict[str, Tensor]) -> list[str]:
    """Add the batches that batch norms saw, which some files lack, as torch does; return names."""
    norms = [name.removesuffix(_MEAN) for name in state if name.endswith(_MEAN)]
    filled = [f"{norm}num_batches_tracked" for norm in norms]
    filled = [name for name in filled if name not in state]
    state.update({name: torch.tensor(0) for name in filled})
    return filled
