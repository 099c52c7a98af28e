"""A callback for the checks that kill a run.

It is named by `network.callbacks=('benchmarks.gpu.killing.KillAtStep',)`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from asdf.training.callbacks import Callback

STEP = "ASDF_BENCHMARK_KILL_AT_STEP"
PATH = "benchmarks.gpu.killing.KillAtStep"


class KillAtStep(Callback):
    """Kills its process after a step, as full memory or a lost node would.

    The environment names the step.
    """

    def on_step(self, record: dict[str, Any]) -> None:
        """Called on the main rank after each printed step."""
        if record["step"] == int(os.environ.get(STEP, "0")):
            os.kill(os.getpid(), signal.SIGKILL)
