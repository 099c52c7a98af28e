"""The callbacks of a run, called together.

Invariant: a user's callback does not cost the training. An exception in one is logged and the run
goes on, unless `network.callback_failures_end_training`; then, and when one of the project's own
fails, all ranks end together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.settings.class_path import describe_error
from asdf.training.callbacks import Callback

SETTING = "network.callbacks"


class CallbackGroup:
    """Calls callbacks on the main rank while the other ranks wait.

    Args:
        required: the project's own, whose failures end the run.
        users: those that `network.callbacks` names; only the main rank needs to have any.
        failures_end_training: a failure of one of `users` ends the run, too.
    """

    def __init__(
        self,
        required: Sequence[Callback],
        users: Sequence[Callback],
        world: World,
        failures_end_training: bool = False,
    ) -> None:
        self._required = required
        self._users = users
        self._world = world
        self._failures_end_training = failures_end_training
        self._failures: Counter[str] = Counter()

    def call(self, event: str, argument: Any) -> None:
        """Call the method `event` of every callback with `argument`; all ranks call this together.

        Raises:
            AsdfError: a callback failed whose failures end the run; on every rank.
        """
        self._world.run_on_main(lambda: self._call(event, argument))

    def call_alone(self, event: str, argument: Any) -> None:
        """Do the same on the main rank only, where the other ranks may be gone."""
        self._call(event, argument)

    def report_failures(self) -> None:
        """Log the number of failures of each callback that failed more than once."""
        for method, count in self._failures.items():
            if count > 1:
                LOG.warning("%s: %s failed %d times", SETTING, method, count)

    def _call(self, event: str, argument: Any) -> None:
        for callback in self._required:
            getattr(callback, event)(argument)
        for callback in self._users:
            try:
                getattr(callback, event)(argument)
            except Exception as error:
                self._note_failure(callback, event, error)

    def _note_failure(self, callback: Callback, event: str, error: Exception) -> None:
        method = f"{type(callback).__module__}.{type(callback).__qualname__}.{event}"
        if self._failures_end_training:
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
