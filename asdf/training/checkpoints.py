"""Networks on disk: `networks/epoch.N.pt`, and `networks/resume.pt` inside an epoch.

Invariants: a file is whole or absent; it holds only tensors and plain values, and reading it
executes nothing; it is never replaced by the network of an earlier or another run. A file holds
everything that a resume needs, and the settings that build its network.

Its tensors are copied to the host, so that training can change its own. A copy keeps the types,
names and shared storages of the original, so the file is the same; it is complete after
`HostCopies.wait`. With a GPU, the host waits once for all tensors.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_file import write_network_file as write_checkpoint
from asdf.checkpoint.network_reading import fill_network, read_network_file
from asdf.errors import AsdfError
from asdf.runs.layout import RESUME, describe_networks, list_networks
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.optimiser_state import optimiser_state
from asdf.training.training_progress import Progress
from asdf.training.weight_average import WeightAverage

__all__ = [
    "HostCopies",
    "collect_checkpoint",
    "fill_network",
    "newest_checkpoint",
    "progress_in",
    "read_checkpoint",
    "write_checkpoint",
]


class HostCopies:
    """Copies content to the host, in consecutive rounds.

    Copies of GPU tensors are in pinned memory, which is allocated in the first round and reused in
    later ones: they are valid until the first `queue` or `take` after their `wait`. Copies of CPU
    tensors are new each time and take memory only while they are referenced.
    """

    def __init__(self) -> None:
        self._pinned: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._begin_round()

    def queue(self, content: Any) -> Any:
        """Return a copy of nested dictionaries, lists and tuples of tensors, valid after `wait`.

        Other values are shared with `content`.
        """
        if isinstance(content, Tensor):
            return self._copy_tensor(content)
        if isinstance(content, dict):
            # A shallow copy, since a state dict has attributes, which are saved with it.
            copied = copy.copy(content)
            for key, value in content.items():
                copied[key] = self.queue(value)
            return copied
        if isinstance(content, list | tuple):
            return type(content)(self.queue(value) for value in content)
        return content

    def wait(self) -> None:
        """Wait for all copies queued since the last call."""
        if self._device is not None:
            # Waiting for a blocking event leaves the core free to read clips.
            arrived = torch.cuda.Event(blocking=True)
            arrived.record(torch.cuda.current_stream(self._device))
            arrived.synchronize()
        self._begin_round()

    def take(self, content: Any) -> Any:
        """Return a complete copy of `content`."""
        copied = self.queue(content)
        self.wait()
        return copied

    def _begin_round(self) -> None:
        self._device: torch.device | None = None
        self._buffers_used: Counter[int] = Counter()
        self._copied: dict[int, torch.UntypedStorage] = {}
        # Referenced, so that their addresses are not reused by other storages meanwhile.
        self._originals: list[torch.UntypedStorage] = []

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0:  # a tensor without numbers
            return tensor.detach().cpu()
        # Storages that tensors share are copied, and saved, once.
        if address not in self._copied:
            self._originals.append(storage)
            self._copied[address] = self._copy_storage(storage)
        host = torch.empty(0, dtype=tensor.dtype)
        return host.set_(
            self._copied[address], tensor.storage_offset(), tensor.shape, tensor.stride()
        )

    def _copy_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            copied: torch.UntypedStorage = storage.cpu().clone()
            return copied
        self._device = storage.device
        numbers = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        # A pinned buffer of this size that has not been used in this round.
        size = storage.nbytes()
        buffers = self._pinned[size]
        index = self._buffers_used[size]
        self._buffers_used[size] += 1
        if index == len(buffers):
            buffers.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
        buffer = buffers[index]
        buffer.copy_(numbers, non_blocking=True)
        return buffer.untyped_storage()


def collect_checkpoint(
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    progress: Progress,
    settings: Sections,
    copies: HostCopies,
    average: WeightAverage | None = None,
) -> NetworkFile:
    """Collect everything needed for scoring with the network and for resuming its training.

    Args:
        copies: Copier of the tensors; training may change them once this returns.
        average: Average of the weights, which is then saved as the network.

    Returns:
        Content for `write_checkpoint`, in the host's memory.
    """
    # Reading a scaler's state on a GPU would synchronise once per number.
    scaler_on_host = type(scaler).__new__(type(scaler))
    tensors = {name: value for name, value in vars(scaler).items() if isinstance(value, Tensor)}
    vars(scaler_on_host).update({**vars(scaler), **copies.queue(tensors)})
    file = NetworkFile.from_network(
        network, settings, optimiser_state=optimiser_state(optimiser), progress=progress.state()
    )
    if average is not None:
        average.save_in(file)
    copied = NetworkFile(**copies.take(vars(file)))
    # Only now, since the scale arrives on the host in `take`.
    copied.scaler_state = scaler_on_host.state_dict()
    return copied


def read_checkpoint(path: Path, mapped: bool = False) -> NetworkFile:
    """Read a network file onto the CPU, without executing anything in it.

    Args:
        mapped: Option as in `read_network_file`.

    Raises:
        AsdfError: the file does not exist or is not a network.
    """
    if not path.exists():
        raise AsdfError(
            f"there is no network {path}. {describe_networks(path.parent)} Choose one with "
            "recipe.selected_epochs or network.resume_epoch, or train first."
        )
    return read_network_file(path, mapped)


def progress_in(file: NetworkFile) -> Progress | None:
    """Return the training progress in `file`, or None if it has none.

    Raises:
        AsdfError: the progress is damaged.
    """
    if file.progress is None:
        return None
    try:
        return Progress.from_state(file.progress)
    except ValueError as error:
        raise AsdfError(
            f"{file.path} has no usable training progress: its 'progress' is damaged, {error}. It "
            "can be scored (recipe.start_stage=2); to train, resume from another network "
            "(network.resume_epoch)."
        ) from None


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in `folder`; unreadable files are skipped with a
    warning.

    Raises:
        AsdfError: networks exist, but none can be read; a new start would overwrite them.
    """
    candidates = [folder / name.file for name in reversed(list_networks(folder))]
    resume = folder / RESUME.file
    if resume.exists():
        candidates.insert(0, resume)
    newest: Path | None = None
    # A network without progress, such as an imported one, counts as older than any other.
    newest_step = -1
    for path in candidates:
        try:
            progress = progress_in(read_checkpoint(path, mapped=True))
        except AsdfError as error:
            LOG.warning("skipped: %s", error)
            continue
        step = progress.step if progress else -1
        if newest is None or step > newest_step:
            newest = path
            newest_step = step
        # Epoch networks are sorted by age, but the checkpoint inside an epoch may be older.
        if path != resume:
            break
    if candidates and newest is None:
        raise AsdfError(
            f"none of the {len(candidates)} networks in {folder} can be read. They are left as "
            "they are: move them away to start afresh, or give this run another "
            "paths.system_folder."
        )
    return newest
