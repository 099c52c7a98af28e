"""Saving during training: a thread of the main rank writes the checkpoint of all ranks.

Invariants: a checkpoint holds the state of its step, since it is copied before the next step. Only
one file is written at a time. All ranks learn together that a file is complete or has failed, and
no earlier file is removed before that. A kill therefore leaves the files unchanged, or with one
more.

Other threads run while a file is written, and mostly while checksums are computed. If one core does
everything, training pauses as long as without a thread; with a GPU, it hardly pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from asdf.checkpoint.network_file import NetworkFile
from asdf.data.threads import Threads
from asdf.runs.layout import RESUME, Layout, NetworkName
from asdf.runs.log import LOG
from asdf.training.callback_group import CallbackGroup
from asdf.training.checkpoints import HostCopies, collect_checkpoint, write_checkpoint
from asdf.training.step import Step
from asdf.training.steps.training_step import state_of
from asdf.training.training_progress import Progress

MIN_INTERVAL_S = 30.0
# With this factor, training pauses for about 2 % of the time, whatever the size of the network.
INTERVAL_PER_SAVING = 50
# With this factor, a possibly shared disk is written to for at most 10 % of the time.
INTERVAL_PER_WRITING = 10


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
        by_disk = INTERVAL_PER_WRITING * self._writing_s
        return max(MIN_INTERVAL_S, by_training, by_disk)

    def is_late(self) -> bool:
        """Return whether a checkpoint is due."""
        if self._interval == "auto" and self._is_writing:
            # Training would pause until the file is written.
            return False
        interval = self.interval()
        return interval is not None and self._clock() - self._since_s >= interval


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
        if self._save is not None:
            save = self._save
            if save.writing is not None and not save.writing.done():
                LOG.info(
                    "training waits: %s is still being written, and the next checkpoint is due",
                    save.path.name,
                )
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
        last = self._copies.queue(step.last.numbers())
        checkpoint = None
        if self._world.is_main:
            of_method = self._copies.queue(state_of(step.method))
            checkpoint = collect_checkpoint(
                step.network,
                step.optimiser,
                step.scaler,
                progress,
                step.settings,
                self._copies,
                step.average,
            )
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


def _write(path: Path, checkpoint: NetworkFile) -> float:
    began = time.monotonic()
    write_checkpoint(path, checkpoint)
    return time.monotonic() - began
