"""The callbacks of a run, called together.

Invariant: a user's callback does not cost the training. An exception in one is logged and the run
goes on, unless `network.callback_failures_end_training`; then, and when one of the project's own
fails, all ranks end together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asdf.distributed.stopping import Stopped
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.settings.class_path import describe_error
from asdf.settings.sections import Sections
from asdf.training.callbacks import (
    SETTING,
    Callback,
    Training,
    build_callback,
    find_callbacks,
)
from asdf.training.metrics_file import MetricsFile


@dataclass(frozen=True)
class Needs:
    """What the callbacks of a run need besides the records that are made in any case."""

    every_step: bool = False
    gradient_norm: bool = False
    outputs: bool = False

    @classmethod
    def of(cls, kinds: Iterable[type[Callback]]) -> Needs:
        """Return what callbacks of these classes need."""
        watching = [kind for kind in kinds if kind.on_every_step is not Callback.on_every_step]
        return cls(
            every_step=bool(watching),
            gradient_norm=any(kind.needs_gradient_norm for kind in watching),
            outputs=any(kind.needs_outputs for kind in watching),
        )


@dataclass(frozen=True)
class CallbackGroup:
    """Calls callbacks on the main rank while the other ranks wait.

    Attributes:
        required: Callbacks of the project's own, whose failures end the run.
        users: Callbacks that `network.callbacks` names; only the main rank needs to have any.
        needs: Needs of `users`, on every rank.
        failures_end_training: a failure of one of `users` ends the run, too.
    """

    required: Sequence[Callback]
    users: Sequence[Callback]
    world: World
    failures_end_training: bool = False
    needs: Needs = Needs()
    _failures: Counter[str] = field(init=False, default_factory=Counter)

    def show(self, training: Training) -> None:
        """Let the callbacks see the training that begins."""
        for callback in (*self.required, *self.users):
            callback.training = training

    def call(self, event: str, argument: Any) -> None:
        """Call the method `event` of every callback with `argument`; all ranks call this together.

        Raises:
            AsdfError: a callback failed whose failures end the run; on every rank.
        """
        self.world.run_on_main(lambda: self._call(event, argument))

    def end(self, error: BaseException | None) -> None:
        """Say how the run ended, on the main rank, where the other ranks may be gone.

        No failure of a callback hides `error`.
        """
        with suppress(AsdfError):
            if isinstance(error, Stopped):
                self._call("on_stop", str(error))
            elif error is not None:
                self._call("on_failure", error)
        for callback in self.users:
            callback.training = None
            try:
                callback.close()
            except Exception as failure:
                with suppress(AsdfError):
                    self._note_failure(callback, "close", failure)
        self.report_failures()

    def call_alone(self, event: str, argument: Any) -> None:
        """Do the same on the main rank only, where the other ranks may be gone."""
        self._call(event, argument)

    def report_failures(self) -> None:
        """Log the number of failures of each callback that failed more than once."""
        for method, count in self._failures.items():
            if count > 1:
                LOG.warning("%s: %s failed %d times", SETTING, method, count)

    def _call(self, event: str, argument: Any) -> None:
        for callback in self.required:
            getattr(callback, event)(argument)
        for callback in self.users:
            try:
                getattr(callback, event)(argument)
            except Exception as error:
                self._note_failure(callback, event, error)

    def _note_failure(self, callback: Callback, event: str, error: Exception) -> None:
        method = f"{type(callback).__module__}.{type(callback).__qualname__}.{event}"
        if self.failures_end_training:
            raise AsdfError(
                f"{SETTING}: {method} failed: {describe_error(error, __file__)}. The run ends "
                "here, as network.callback_failures_end_training = True; what was saved stays, and "
                "the same command goes on."
            ) from error
        self._failures[method] += 1
        if self._failures[method] == 1:
            LOG.warning(
                "%s: %s failed: %s. Training goes on; the traceback is in log.txt. "
                "Later failures of it are counted.",
                SETTING,
                method,
                describe_error(error, __file__),
                exc_info=error,
            )


def build_callbacks(
    settings: Sections, folder: Path, recipe_folder: Path, world: World
) -> CallbackGroup:
    """Return the callbacks of a run; all ranks call this together.

    Args:
        folder: the system folder of the run.
        recipe_folder: Folder of the user's modules.

    Raises:
        AsdfError: a callback cannot be made; on every rank.
    """
    kinds = find_callbacks(settings, recipe_folder)
    users: list[Callback] = []

    def build_all() -> None:
        for kind in kinds:
            users.append(build_callback(kind, settings, folder))

    world.run_on_main(build_all)
    return CallbackGroup(
        [MetricsFile(settings, folder)],
        users,
        world,
        failures_end_training=settings.network.callback_failures_end_training,
        needs=Needs.of(kinds),
    )
