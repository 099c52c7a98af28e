"""A callback for the checks that kill a run: `network.callbacks=('benchmarks.gpu.killing.KillAtStep',)`."""

from __future__ import annotations

import os
import signal
from typing import Any

from asdf.training.callbacks import Callback

STEP = "ASDF_BENCHMARK_KILL_AT_STEP"
PATH = "benchmarks.gpu.killing.KillAtStep"


class KillAtStep(Callback):
    """Kills its process after the step that the environment names, as a full memory or a lost node would."""

    def on_step(self, record: dict[str, Any]) -> None:
        """Called on the main rank after each printed step."""
        if record["step"] == int(os.environ.get(STEP, "0")):
            os.kill(os.getpid(), signal.SIGKILL)
