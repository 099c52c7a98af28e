"""Networks on disk: `networks/epoch.N.pt`, and `networks/resume.pt` inside an epoch.

Invariants: a file is whole or absent; it holds tensors and plain values only and is read without
running anything in it; what is at a path is never replaced by an earlier or another run's network.
A file has all that a resume needs, and the settings that build the network that it fits.

Its tensors are copied to the host, so that training may change its own. A copy has the types, the
names and the shared storages of the original, so that its file is the same; and it is complete
after `HostCopies.wait`. On a GPU the host waits once for all tensors together. Those of a network
that is divided over the processes are gathered one by one, with a wait for each.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.base_weights import base_of
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_file import write_network_file as write_checkpoint
from asdf.checkpoint.network_reading import fill_network, read_network_file
from asdf.checkpoint.stored_parts import KeyPath, folders_of, remove_other_parts, take_out
from asdf.distributed.sharding import gathered, is_part, is_sharded
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.network_names import RESUME, describe_networks, list_networks
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
    "read_parts",
    "write_checkpoint",
]


class HostCopies:
    """Copies content to the host, one round after another.

    Copies of a GPU's tensors are in pinned memory, which is allocated in the first round and reused
    in later ones: they are valid until the first `queue` or `take` after their `wait`. Copies of
    the CPU's tensors are new each time, so that they take memory only as long as they are
    referenced.

    Attributes:
        leaves_parts: Whether tensors that are divided over the processes are not gathered.
        parts: These tensors themselves, by their places in the last checkpoint.
    """

    def __init__(self, leaves_parts: bool = False) -> None:
        self.leaves_parts = leaves_parts
        self.parts: dict[KeyPath, Tensor] = {}
        self._pinned: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._begin_round()

    def queue(self, content: Any) -> Any:
        """Return a copy of dictionaries, lists, tuples and the tensors in them, valid after `wait`.

        Other values are those of `content`. Where tensors are divided over the ranks, all ranks
        call this together, and the main one gets the whole tensors.
        """
        if isinstance(content, Tensor):
            return self._copy_tensor(content)
        if isinstance(content, dict):
            # A shallow copy: a state dict has attributes, which are saved with it.
            copied = copy.copy(content)
            for key, value in content.items():
                copied[key] = self.queue(value)
            return copied
        if isinstance(content, list | tuple):
            return type(content)(self.queue(value) for value in content)
        return content

    def wait(self) -> None:
        """Wait for everything that was queued since the last call."""
        if self._device is not None:
            # A blocking event lets the core read clips meanwhile.
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
        # Referenced, so that their addresses do not become other storages' meanwhile.
        self._originals: list[torch.UntypedStorage] = []

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        if is_part(tensor):
            return gathered(tensor)
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
        # A pinned buffer of `size` bytes that this round has not used yet.
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
    world: World,
    copies: HostCopies,
    average: WeightAverage | None = None,
) -> NetworkFile | None:
    """Collect all that scoring with the network and resuming its training need.

    All ranks call this together.

    Args:
        copies: Copies of the tensors; training may change its own when this returns, but for those
            in `copies.parts`.
        average: Average of the weights, which are then the network in the file.

    Returns:
        What `write_checkpoint` takes, in the main rank's memory; None on the other ranks.
    """
    # The parts of a divided network are gathered, in which all ranks take part.
    if not (world.is_main or is_sharded(network)):
        return None
    # To ask a scaler on a GPU for its state would wait for the GPU once per number.
    scaler_on_host = type(scaler).__new__(type(scaler))
    tensors = {name: value for name, value in vars(scaler).items() if isinstance(value, Tensor)}
    vars(scaler_on_host).update({**vars(scaler), **copies.queue(tensors)})
    file = NetworkFile.from_network(
        network, settings, optimiser_state=optimiser_state(optimiser), progress=progress.state()
    )
    if average is not None:
        average.save_in(file)
    entries = vars(file)
    if copies.leaves_parts:
        copies.parts = {}
        entries = take_out(entries, is_part, copies.parts)
        if not world.is_main:
            return None
    copied = NetworkFile(**copies.take(entries))
    # Only now: until `take` has waited, the scale may not have arrived on the host.
    copied.scaler_state = scaler_on_host.state_dict()
    return copied if world.is_main else None


def read_checkpoint(path: Path, mapped: bool = False, whole: bool = True) -> NetworkFile:
    """Read a network file, onto the CPU; nothing in the file is executed.

    Args:
        mapped, whole: See `read_network_file`.

    Raises:
        AsdfError: no such file exists, or it is not a network.
    """
    if not path.exists():
        raise AsdfError(
            f"there is no network {path}. {describe_networks(path.parent)} Choose one with "
            "recipe.selected_epochs or network.resume_epoch, or train first."
        )
    return read_network_file(path, mapped, whole)


def read_parts(
    file: NetworkFile, network: nn.Module, optimiser: torch.optim.Optimizer, world: World
) -> NetworkFile:
    """Return `file` with the tensors that lie beside it, divided as those of `network` are.

    Each process reads what it will hold; what is not divided, it reads whole.

    Raises:
        AsdfError: the parts are damaged.
    """
    parts = file.stored_parts()
    if parts is None:
        return file
    likes: dict[KeyPath, Tensor] = {}
    # Weights that may be those of its base are compared with them as a whole.
    if base_of(network) is None:
        for name, layer in network.state_dict().items():
            likes["state", name] = layer
    for name, parameter in network.named_parameters(remove_duplicate=False):
        likes["unaveraged_state", name] = parameter
    local = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    groups = (file.optimiser_state or {}).get("param_groups", [])
    numbers = [number for group in groups for number in group["params"]]
    for number, parameter in zip(numbers, local, strict=False):
        likes["optimiser_state", "state", number] = parameter
    targets = {}
    for path, outline in parts.outlines().items():
        # Moments have their names behind the number of their parameter.
        like = likes.get(path, likes.get(path[:3]))
        if like is not None and is_part(like) and like.shape == outline.shape:
            targets[path] = torch.empty_like(like.detach(), dtype=outline.dtype)
        else:
            targets[path] = torch.empty_like(outline, device="cpu")
    parts.read_into(targets, world.rank, world.size)
    return file.with_tensors(targets)


def join_networks(folder: Path) -> None:
    """Make networks in `folder` files of one piece whose divided tensors lie beside them.

    Raises:
        AsdfError: parts are damaged, or a file cannot be written.
    """
    for name in list_networks(folder):
        path = folder / name.file
        if not folders_of(path):
            continue
        file = read_checkpoint(path, mapped=True, whole=False)
        parts = file.stored_parts()
        if parts is not None:
            LOG.info("joining the parts of %s, which processes wrote each for itself", name.file)
            write_checkpoint(path, file.with_tensors(parts.whole()))
        remove_other_parts(path, None)


def progress_in(file: NetworkFile) -> Progress | None:
    """Return how far the training of `file` had come, or None if it has no progress.

    Raises:
        AsdfError: its progress is damaged.
    """
    if file.progress is None:
        return None
    try:
        return Progress.from_state(file.progress)
    except ValueError as error:
        raise AsdfError(
            f"{file.path} does not say how far its training had come: its 'progress' is damaged, "
            f"{error}. It can be scored (recipe.start_stage=2); to train, go on from another "
            "network (network.resume_epoch)."
        ) from None


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in `folder`; unreadable files are skipped with a
    warning.

    Raises:
        AsdfError: networks exist, but none can be read: a new start would overwrite them.
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
            file = read_checkpoint(path, mapped=True, whole=False)
            parts = file.stored_parts()
            if parts is not None:
                parts.outlines()
            progress = progress_in(file)
        except AsdfError as error:
            LOG.warning("skipped: %s", error)
            continue
        step = progress.step if progress else -1
        if newest is None or step > newest_step:
            newest = path
            newest_step = step
        # The others are older than this one; the checkpoint inside an epoch need not be the newest.
        if path != resume:
            break
    if candidates and newest is None:
        raise AsdfError(
            f"none of the {len(candidates)} networks in {folder} can be read. They are left as "
            "they are: move them away to start afresh, or give this run another "
            "paths.system_folder."
        )
    return newest
