"""Networks on disk: `networks/epoch.N.pt`, and `networks/resume.pt` inside an epoch.

Invariants: a file is whole or absent; it holds only tensors and plain values, and reading it
executes nothing; it is never replaced by the network of an earlier or another run. A file holds
everything that a resume needs, and the settings that build its network. A network is complete on
the disk before others are removed in its favour.

A thread of the main rank writes the checkpoint of all ranks. Its tensors are copied to the host
before the next step changes them, with the types, names and shared storages of the originals; with
a GPU, the host waits once for all of them. Only one file is written at a time. All ranks learn
together that a file is complete or has failed, and no earlier file is removed before that. A kill
therefore leaves the files unchanged, or with one more.
"""

from __future__ import annotations

import copy
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.data.threads import Threads
from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation, best_first
from asdf.runs.layout import AVERAGE, RESUME, Layout, NetworkName, describe_networks, list_networks
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.callback_group import CallbackGroup
from asdf.training.gradients import WeightAverage
from asdf.training.optimisers import optimiser_state
from asdf.training.step import Step
from asdf.training.steps.training_step import state_of
from asdf.training.training_progress import Progress

MIN_INTERVAL_S = 30.0
# With this factor, training pauses for about 2 % of the time, whatever the size of the network.
INTERVAL_PER_SAVING = 50
# With this factor, a possibly shared disk is written to for at most 10 % of the time.
INTERVAL_PER_WRITING = 10


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
        layout = (tensor.storage_offset(), tensor.shape, tensor.stride())
        return torch.empty(0, dtype=tensor.dtype).set_(self._copied[address], *layout)

    def _copy_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            copied: torch.UntypedStorage = storage.cpu().clone()
            return copied
        self._device = storage.device
        # A pinned buffer of this size that has not been used in this round.
        size = storage.nbytes()
        buffers = self._pinned[size]
        index = self._buffers_used[size]
        self._buffers_used[size] += 1
        if index == len(buffers):
            buffers.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
        numbers = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        buffers[index].copy_(numbers, non_blocking=True)
        return buffers[index].untyped_storage()


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
        Content for `write_network_file`, in the host's memory.
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
    try:
        return None if file.progress is None else Progress.from_state(file.progress)
    except ValueError as error:
        raise AsdfError(
            f"{file.path}: its training progress is damaged, {error}. It can be scored "
            "(recipe.start_stage=2); to train, resume from another (network.resume_epoch)."
        ) from None


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in `folder`; unreadable files are skipped with a
    warning.

    Raises:
        AsdfError: networks exist, but none can be read; a new start would overwrite them.
    """
    resume = folder / RESUME.file
    candidates = [resume] * resume.exists()
    candidates += [folder / name.file for name in reversed(list_networks(folder))]
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
            newest, newest_step = path, step
        # Epoch networks are sorted by age, but the checkpoint inside an epoch may be older.
        if path != resume:
            break
    if candidates and newest is None:
        raise AsdfError(
            f"none of the {len(candidates)} networks in {folder} can be read. Move them away to "
            "start afresh, or give this run another paths.system_folder."
        )
    return newest


def remove_networks(layout: Layout, settings: Sections, evaluations: list[Evaluation]) -> None:
    """Remove the networks that the settings do not retain.

    Retained are the latest ones, the best ones, one in every so many epochs, and those that the
    settings of later stages name.
    """
    training = settings.network
    if training.keep_last_networks is None:
        return
    existing = list_networks(layout.networks)
    # Networks that will be averaged must still exist at the end of training.
    best = max(training.keep_best_networks, training.average_best_networks)
    ranked = best_first(evaluations, training.validation_metric)
    retained = {evaluation.network for evaluation in ranked[:best]}
    retained.update(existing[-training.keep_last_networks :])
    chosen = [epoch for epoch in settings.recipe.selected_epochs or () if isinstance(epoch, int)]
    retained.update(map(NetworkName.after_epoch, chosen))
    for name in existing:
        if name not in retained:
            layout.network_file(name).unlink(missing_ok=True)


def average_networks(
    layout: Layout, evaluations: list[Evaluation], count: int, metric: str | None = None
) -> Path:
    """Write the mean of the weights of the best `count` networks to networks/average.pt.

    Floating-point weights and statistics are averaged in float64; counters are copied from the
    best.

    Args:
        metric: Metric as in `best_first`.

    Returns:
        Path of the average.

    Raises:
        AsdfError: no network has been evaluated.
    """
    best = [evaluation.network for evaluation in best_first(evaluations, metric)][:count]
    names = [name for name in best if layout.network_file(name).exists()]
    if not names:
        raise AsdfError(
            "network.average_best_networks asks for an average, but no network has been evaluated: "
            "set recipe.validation_sets, or network.average_best_networks = 0."
        )
    files = [name.file for name in names]
    first = read_checkpoint(layout.network_file(names[0]), mapped=True)
    # The mean of counters, such as batch norm's of its batches, is not an integer.
    floating = {name: value for name, value in first.state.items() if value.is_floating_point()}
    sums = {name: value.double() for name, value in floating.items()}
    for other in names[1:]:
        # Only one network is in memory at a time.
        weights = read_checkpoint(layout.network_file(other), mapped=True).state
        for name in sums:
            sums[name] += weights[name].double()
    mean = {name: (sums[name] / len(names)).to(value.dtype) for name, value in floating.items()}
    path = layout.network_file(AVERAGE)
    write_network_file(path, first.with_weights({**first.state, **mean}, files))
    LOG.info("averaged %s into %s", ", ".join(files), AVERAGE.file)
    return path


class SaveTimer:
    """Measures whether the next checkpoint is due, according to `network.checkpoint_interval_s`.

    A kill loses the steps since the last checkpoint, but not validation scores or computed
    features, so `restart` is called after these and their time does not count.

    Args:
        interval: Interval in seconds; None for never; 'auto' for 50 times the pause for the last
            checkpoint or 10 times the time to write it, whichever is longer, and at least 30 s.
        clock: Function that returns the time in seconds.
    """

    def __init__(
        self, interval: float | Literal["auto"] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._interval = interval
        self._clock = clock
        self._saving_s = 0.0
        self._writing_s = 0.0
        self._is_writing = False
        self.restart()

    def restart(self) -> None:
        """Restart the interval now."""
        self._since_s = self._clock()

    def note_saving(self, seconds: float) -> None:
        """Record the pause of training in seconds, and restart the interval."""
        self._saving_s = seconds
        self._is_writing = True
        self.restart()

    def note_writing(self, seconds: float) -> None:
        """Record that the file has been written, and the time in seconds."""
        self._writing_s = seconds
        self._is_writing = False

    def interval(self) -> float | None:
        """Return the seconds between checkpoints; None to save none within an epoch."""
        if self._interval != "auto":
            return self._interval
        by_training = INTERVAL_PER_SAVING * self._saving_s
        return max(MIN_INTERVAL_S, by_training, INTERVAL_PER_WRITING * self._writing_s)

    def is_late(self) -> bool:
        """Return whether a checkpoint is due."""
        if self._interval == "auto" and self._is_writing:
            # Training would pause until the file is written.
            return False
        interval = self.interval()
        return interval is not None and self._clock() - self._since_s >= interval


def _write(path: Path, checkpoint: NetworkFile) -> float:
    """Write a checkpoint in a thread; return the seconds that it took."""
    began = time.monotonic()
    write_network_file(path, checkpoint)
    return time.monotonic() - began


@dataclass(frozen=True)
class _Save:
    """A checkpoint that is being written.

    Attributes:
        ends_epoch: Whether it replaces the checkpoint inside the epoch.
        writing: Future of the writing time in seconds; None on ranks that do not write.
    """

    path: Path
    ends_epoch: bool
    writing: Future[float] | None


class Saving:
    """Saves the network and optimiser of `step` to files of the run; every rank has one.

    Attributes:
        timer: Timer that decides when a checkpoint inside an epoch is due.
    """

    def __init__(self, step: Step, layout: Layout, callbacks: CallbackGroup) -> None:
        self._step = step
        self._world = step.world
        self._layout = layout
        self._callbacks = callbacks
        self.timer = SaveTimer(step.settings.network.checkpoint_interval_s)
        self._copies = HostCopies()
        self._threads: Threads | None = None
        self._save: _Save | None = None
        self._newest: Path | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Return a block in which checkpoints are saved; at its end the last one is complete.

        Raises:
            AsdfError: the last one cannot be written, whatever else ended the block.
        """
        if self._world.is_main:
            self._threads = Threads(1)
        try:
            yield
        except BaseException:
            # Settle only on the main rank, since the others may be elsewhere.
            save = self._save
            self._save = None
            if save is not None and self._world.is_main:
                self._conclude(save)
                self._callbacks.call_alone("on_checkpoint", save.path)
            raise
        finally:
            if self._threads is not None:
                self._threads.close()

    def flags(self) -> list[float]:
        """Return 1 if a checkpoint is due, and 1 if one has been written and can be settled.

        The main rank decides, so the sums over the ranks are its flags.
        """
        if not self._world.is_main:
            return [0.0, 0.0]
        save = self._save
        is_written = save is not None and save.writing is not None and save.writing.done()
        return [float(self.timer.is_late()), float(is_written)]

    def save(self, name: NetworkName, progress: Progress, ends_epoch: bool = False) -> None:
        """Start saving the network `name`; all ranks call this together.

        Raises:
            AsdfError: the gradient of the last step was not finite, or the previous checkpoint
                cannot be written.
        """
        began = time.monotonic()
        save = self._save
        if save is not None and save.writing is not None and not save.writing.done():
            LOG.info("training waits: %s is still being written", save.path.name)
        # The thread may still read the pinned memory that the next copies use.
        self.settle()
        checkpoint = self._collect(progress)
        path = self._layout.network_file(name)
        writing = None
        if self._threads is not None and checkpoint is not None:
            writing = self._threads.submit(_write, path, checkpoint)
        self._save = _Save(path, ends_epoch, writing)
        self._newest = path
        self.timer.note_saving(time.monotonic() - began)

    def settle(self) -> None:
        """Wait until the file of the last save is complete, and call the callbacks.

        All ranks call this together.

        Raises:
            AsdfError: the file cannot be written.
        """
        save = self._save
        self._save = None
        if save is not None:
            self._world.run_on_main(lambda: self._conclude(save))
            self._callbacks.call("on_checkpoint", save.path)

    def end(self) -> None:
        """Settle the last save, and remove the checkpoint inside an epoch if it is older.

        All ranks call this together when training is over.

        Raises:
            AsdfError: the last file cannot be written.
        """
        self.settle()
        resume = self._layout.network_file(RESUME)
        # If this training saved nothing, the checkpoint inside an epoch may be the newest.
        if self._newest not in (None, resume):
            self._world.run_on_main(partial(resume.unlink, missing_ok=True))

    def _collect(self, progress: Progress) -> NetworkFile | None:
        """Return the checkpoint on the main rank, None on the others.

        The host waits for a GPU once.
        """
        step = self._step
        # Running statistics differ between the ranks; a file has those of the main rank.
        self._world.broadcast_buffers(step.network)
        # Queued with the tensors, so that one wait is enough for them and the check of the last
        # step.
        last = self._copies.queue(step.update.last.numbers())
        checkpoint = None
        if self._world.is_main:
            of_method = self._copies.queue(state_of(step.method))
            update = step.update
            trained = (step.network, update.optimiser, update.scaler, progress, step.settings)
            checkpoint = collect_checkpoint(*trained, self._copies, update.average)
            checkpoint.step_state = of_method
        self._copies.wait()
        step.check_last(last)
        return checkpoint

    def _conclude(self, save: _Save) -> None:
        assert save.writing is not None  # this is the main rank
        self.timer.note_writing(save.writing.result())
        if save.ends_epoch:
            # Not before the epoch's network is complete, since until then this is the newest
            # checkpoint.
            self._layout.network_file(RESUME).unlink(missing_ok=True)
