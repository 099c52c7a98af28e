"""Checks that a network's outputs have the form that training and scoring expect.

Invariant: the check has no side effects. The network's buffers and modes and all random states are
restored, so a run takes exactly the same steps with and without the check.

Shapes: B utterances, T samples, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.networks.interface import (
    Outputs,
    as_outputs,
    fixed_samples,
    frame_hop,
    inputs_on_noise,
    waveform_shape,
)
from asdf.settings.class_path import describe_error
from asdf.settings.sections import Network
from asdf.text import count_of

_LEVEL = 0.01
_LOUDER = 10.0
# For sums that a GPU computes in varying order.
_RELATIVE_TOLERANCE = 1e-4
_ABSOLUTE_TOLERANCE = 1e-6


def check_outputs(network: nn.Module, settings: Network, device: torch.device) -> None:
    """Compute up to two clips of noise in `eval()` mode, and check the outputs.

    The clips have the length of training clips.

    Raises:
        AsdfError: the network fails, does not return embeddings and two finite logits for each
            utterance, or returns other logits for an utterance in another batch.
    """
    samples = fixed_samples(network) or settings.train_clip_size
    clips_BT = _make_clips(network, samples).to(device)
    with left_unchanged(network), torch.no_grad():
        network.eval()
        next_to_louder_2 = _compute_logits(network, clips_BT, settings)[0]
        alone_2 = _compute_logits(network, clips_BT[:1], settings)[0]
        if _are_close(next_to_louder_2, alone_2):
            return
        # Batches of different sizes may be rounded differently, and a choice of nodes or frames can
        # amplify this.
        twice_BT = torch.cat([clips_BT[:1]] * 2)
        next_to_itself_2 = _compute_logits(network, twice_BT, settings)[0]
        if not _are_close(next_to_louder_2, next_to_itself_2):
            raise _describe_mistake(
                settings,
                f"gives an utterance the logits {_list_numbers(next_to_louder_2)} next to one "
                f"utterance of a batch and {_list_numbers(next_to_itself_2)} next to another. In "
                "eval() mode a row must not depend on the other rows, or a score would depend on "
                "its batch: mean, norm and softmax must not go over dimension 0",
            )


def compute_on_noise(
    network: nn.Module, settings: Network, device: torch.device, in_training: bool = False
) -> Outputs:
    """Compute two clips of noise with gradients, and return the outputs.

    Args:
        in_training: Whether to compute in `train()` instead of `eval()` mode.

    Raises:
        AsdfError: the network fails, or its outputs have other shapes.
    """
    samples = fixed_samples(network) or settings.train_clip_size
    kind = next(network.parameters()).dtype
    clips_BT = _make_clips(network, samples).to(device, kind)
    network.train(in_training)
    return as_outputs(_run_network(network, clips_BT, settings))


def _make_clips(network: nn.Module, samples: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    clips_BT = _LEVEL * torch.randn(waveform_shape(network, 2, samples), generator=generator)
    # A louder clip affects the other's logits if these depend on it at all.
    clips_BT[1] *= _LOUDER
    return clips_BT


def _compute_logits(network: nn.Module, clips_BT: Tensor, settings: Network) -> Tensor:
    """Return the network's logits of the clips, (B, 2), on the CPU.

    Raises:
        AsdfError: its outputs are not embeddings and finite logits.
    """
    outputs = _run_network(network, clips_BT, settings)
    _check_frames(network, as_outputs(outputs), clips_BT.shape[-1], settings)
    logits_B2: Tensor = outputs[1].float().cpu()
    if not logits_B2.isfinite().all():
        raise _describe_mistake(
            settings,
            f"gives the logits {_list_numbers(logits_B2[0])}, which are not all finite numbers",
        )
    return logits_B2


def _check_frames(network: nn.Module, outputs: Outputs, samples: int, settings: Network) -> None:
    """Check that the number of frames agrees with the network's `frame_hop`.

    Raises:
        AsdfError: there are more frames, or far fewer.
    """
    hop = frame_hop(network)
    frames = outputs.extras.get("frames")
    if hop is None and frames is None:
        return
    if hop is None:
        raise _describe_mistake(
            settings, "gives frame logits but has no attribute frame_hop, the samples per frame"
        )
    count = -(-samples // hop)
    returned = 0 if frames is None else frames.shape[1]
    # The last frames of a clip may lack a whole window.
    if not count / 2 <= returned <= count:
        raise _describe_mistake(
            settings,
            f"gives logits of {returned} frames for {samples} samples, but its frame_hop = {hop} "
            f"means {count}",
        )


def _run_network(network: nn.Module, clips_BT: Tensor, settings: Network) -> Any:
    """Return the network's outputs, whose shapes are correct."""
    try:
        # A copy, since a network may change its input in place, and the clips are used again.
        outputs = network(clips_BT.clone(), **inputs_on_noise(network, clips_BT))
    except AsdfError:
        raise
    except Exception as error:
        utterances, samples = len(clips_BT), clips_BT.shape[-1]
        clips = f"{count_of(utterances, 'utterance')} of {samples} samples"
        reason = describe_error(error, __file__)
        raise _describe_mistake(settings, f"fails on {clips}: {reason}") from error
    fault = _find_fault(outputs, len(clips_BT))
    if fault:
        raise _describe_mistake(settings, fault)
    return outputs


def _find_fault(outputs: Any, utterances: int) -> str:
    """Return what is wrong with the shapes of a network's outputs; '' if they are correct."""
    expected = count_of(utterances, "utterance")
    if not isinstance(outputs, tuple | list | Outputs) or len(outputs) != 2:
        return f"gives {_describe_value(outputs)} instead of two tensors for {expected}"
    embeddings, logits = outputs
    if not isinstance(logits, Tensor) or tuple(logits.shape) != (utterances, 2):
        return f"gives {_describe_value(logits)} as the logits of {expected}"
    if _has_other_rows(embeddings, utterances):
        return f"gives {_describe_value(embeddings)} as the embeddings of {expected}"
    extras = as_outputs(outputs).extras
    frames = extras.get("frames")
    if frames is not None and (frames.dim() != 3 or frames.shape[::2] != (utterances, 2)):
        return f"gives {_describe_value(frames)} as the logits of the frames of {expected}"
    for name, values in extras.items():
        if _has_other_rows(values, utterances):
            return f"gives {_describe_value(values)} as the {name} of {expected}"
    return ""


def _has_other_rows(embeddings: Any, utterances: int) -> bool:
    # Embeddings may be anything, and only a tensor has rows.
    if not isinstance(embeddings, Tensor):
        return False
    return embeddings.dim() == 0 or len(embeddings) != utterances


def _describe_mistake(settings: Network, what: str) -> AsdfError:
    return AsdfError(
        f"network.network_class: {settings.network_class} {what}. Its forward must take waveforms "
        "(batch, samples) and return embeddings (batch, anything) and logits (batch, 2), column 1 "
        "for bona fide; see asdf.networks.DetectorNetwork. This was tested with noise before the "
        "first step; nothing was written."
    )


def _are_close(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, _RELATIVE_TOLERANCE, _ABSOLUTE_TOLERANCE)


def _describe_value(value: Any) -> str:
    """Return 'a tensor (4, 2)', 'a tuple of 3', or the type of the value."""
    if isinstance(value, Tensor):
        return f"a tensor ({', '.join(map(str, value.shape))})"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of the type {type(value).__name__}"


def _list_numbers(values: Tensor) -> str:
    numbers = [f"{value:.4g}" for value in values.tolist()]
    return f"({', '.join(numbers)})"


@contextmanager
def numbers_unchanged(network: nn.Module) -> Iterator[None]:
    """Restore the modes and buffers of `network` after the block, without waiting for a device."""
    modes = {module: module.training for module in network.modules()}
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in modes
        for name, buffer in module.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
        for module, name, buffer, before in buffers:
            # `forward` may also have replaced the buffer by another tensor.
            setattr(module, name, buffer.copy_(before))


@contextmanager
def left_unchanged(network: nn.Module) -> Iterator[None]:
    """Restore the modes and buffers of `network` and all random states after the block."""
    torch_state = torch.get_rng_state()
    numpy_state = np.random.get_state()
    python_state = random.getstate()
    # Reading the states would start CUDA, which takes memory on the device.
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        with numbers_unchanged(network):
            yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)
        random.setstate(python_state)
        if cuda_states:
            torch.cuda.set_rng_state_all(cuda_states)
