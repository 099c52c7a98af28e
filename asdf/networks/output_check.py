"""Whether a network's outputs are what training and scoring take them for.

Invariant: the check leaves no trace. The network's buffers and modes and every source of random
numbers are afterwards what they were before, so a run with the check takes the very steps of one
without.

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
from asdf.networks.interface import fixed_samples
from asdf.settings.class_path import describe_error
from asdf.settings.sections import Network

_LEVEL = 0.01
_LOUDER = 10.0
# For what a GPU adds up in an order of its own.
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6


def check_outputs(network: nn.Module, settings: Network, device: torch.device) -> None:
    """Compute clips of noise, two at most and as long as those of training, in `eval()` mode, and look at the outputs.

    Raises:
        AsdfError: the network fails; does not give embeddings and two finite logits for each
            utterance; or gives an utterance other logits when it is in another batch.
    """
    samples = fixed_samples(network) or settings.train_clip_size
    clips_BT = _LEVEL * torch.randn(2, samples, generator=torch.Generator().manual_seed(0))
    # One that is louder shows itself in the other's logits, if these depend on it at all.
    clips_BT[1] *= _LOUDER
    clips_BT = clips_BT.to(device)
    with _left_as_it_is(network):
        network.eval()
        next_to_louder_B2 = _logits(network, clips_BT, settings)
        alone_B2 = _logits(network, clips_BT[:1], settings)
        if _close(next_to_louder_B2[0], alone_B2[0]):
            return
        # Batches of two sizes may be rounded differently, which a choice of nodes or frames can
        # enlarge.
        next_to_itself_B2 = _logits(network, clips_BT[:1].repeat(2, 1), settings)
        if not _close(next_to_louder_B2[0], next_to_itself_B2[0]):
            raise _mistake(
                settings,
                f"gives an utterance the logits {_numbers(next_to_louder_B2[0])} next to one utterance of a batch "
                f"and {_numbers(next_to_itself_B2[0])} next to another. In eval() mode a row must not depend on the "
                "other rows, or a score would depend on its batch: mean, norm and softmax must not go over dimension 0",
            )


def _logits(network: nn.Module, clips_BT: Tensor, settings: Network) -> Tensor:
    """The network's logits of the clips, (B, 2), once they are known to be logits."""
    count = len(clips_BT)
    shown = _utterances(count)
    outputs = _outputs(network, clips_BT, settings)
    if not isinstance(outputs, tuple | list) or len(outputs) != 2:
        what = f"gives {_described(outputs)} instead of two tensors for {shown}"
        raise _mistake(settings, what)
    embeddings, logits_B2 = outputs
    if not isinstance(logits_B2, Tensor) or tuple(logits_B2.shape) != (count, 2):
        raise _mistake(settings, f"gives {_described(logits_B2)} as the logits of {shown}")
    if isinstance(embeddings, Tensor) and (embeddings.dim() == 0 or len(embeddings) != count):
        raise _mistake(settings, f"gives {_described(embeddings)} as the embeddings of {shown}")
    logits_B2 = logits_B2.float().cpu()
    if not logits_B2.isfinite().all():
        what = f"gives the logits {_numbers(logits_B2[0])}, which are not all finite numbers"
        raise _mistake(settings, what)
    return logits_B2


def _outputs(network: nn.Module, clips_BT: Tensor, settings: Network) -> Any:
    try:
        return network(clips_BT.clone())
    except AsdfError:
        raise
    except Exception as error:
        shown = f"{_utterances(len(clips_BT))} of {clips_BT.shape[1]} samples"
        raise _mistake(settings, f"fails on {shown}: {describe_error(error, __file__)}") from error


def _mistake(settings: Network, what: str) -> AsdfError:
    return AsdfError(
        f"network.network_class: {settings.network_class} {what}. Its forward has to take waveforms (batch, samples) "
        "and return embeddings (batch, anything) and logits (batch, 2), column 1 for bona fide; see "
        "asdf.networks.DetectorNetwork. This was seen on noise, before the first step; nothing was written."
    )


def _close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, _RELATIVE, _ABSOLUTE)


def _utterances(count: int) -> str:
    return f"{count} utterance{'s' * (count != 1)}"


def _described(value: Any) -> str:
    """'a tensor (4, 2)', 'a tuple of 3', or the type of the value."""
    if isinstance(value, Tensor):
        return f"a tensor ({', '.join(map(str, value.shape))})"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a value of the type {type(value).__name__}"


def _numbers(values: Tensor) -> str:
    return f"({', '.join(f'{value:.4g}' for value in values.tolist())})"


@contextmanager
def _left_as_it_is(network: nn.Module) -> Iterator[None]:
    modes = {module: module.training for module in network.modules()}
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in modes
        for name, buffer in module.named_buffers(recurse=False)
    ]
    states = (torch.get_rng_state(), np.random.get_state(), random.getstate())
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes.items():
            module.training = training
        for module, name, buffer, before in buffers:
            setattr(module, name, buffer.copy_(before))
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        if on_gpu:
            torch.cuda.set_rng_state_all(on_gpu)
