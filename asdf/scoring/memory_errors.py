"""A batch that a device's memory cannot hold, and the message that says what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.settings.sections import Network
from asdf.trials.how_scored import ScoredLength

# What torch's allocator for the host says, in an error without a class of its own.
_HOST = "DefaultCPUAllocator"
_CPU_ADVICE = "on a GPU that other programs use as well, free its memory or compute on the CPU"


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch could not get memory, of a GPU or of the host."""
    return isinstance(error, torch.OutOfMemoryError) or _HOST in str(error)


@contextmanager
def memory_errors_as(describe: Callable[[str], AsdfError]) -> Iterator[None]:
    """Raise one message where the block needs more memory than there is.

    Args:
        describe: Function that makes the error from torch's reason.

    Raises:
        AsdfError: torch could not get memory.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        # torch goes on with advice on its allocator, which is not what helps here.
        reason = str(error).partition("\n")[0].partition(" Of the allocated memory")[0]
        raise describe(reason.rstrip(".")) from error


def memory_errors_as_messages(
    waveforms_BT: Tensor, settings: Network, length: ScoredLength, device: torch.device
) -> AbstractContextManager[None]:
    """Raise one message for a batch that does not fit into the device's memory.

    Args:
        length: Samples of a recording that are scored.

    Raises:
        AsdfError: a batch does not fit; names the setting that makes batches smaller.
    """

    def describe(reason: str) -> AsdfError:
        count, samples = waveforms_BT.shape
        recordings = f"{count} recording{'s' * (count > 1)} of {samples:,} samples"
        advice = _how_to_need_less(count, samples, settings, length)
        return AsdfError(
            f"{device} has not enough memory to score {recordings} at once: {reason}. "
            f"{advice}; {_CPU_ADVICE}."
        )

    return memory_errors_as(describe)


def _how_to_need_less(count: int, samples: int, settings: Network, length: ScoredLength) -> str:
    if count == 1:
        return (
            "A batch cannot hold less: score less of long recordings, "
            "network.max_evaluation_utterance_length_in_samples "
            f"(now {length.max_samples:,})"
        )
    factor = count * samples / settings.minibatch_size / settings.train_clip_size
    return (
        f"Set network.eval_minibatch_size_factor below {factor:.3g}, which is that of this batch "
        f"(now {settings.eval_minibatch_size_factor!r})"
    )
