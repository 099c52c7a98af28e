"""A callback for checks that kill a run.

It is set with `network.callbacks=('benchmarks.gpu.killing.KillAtStep',)`.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from asdf.training.callbacks import Callback

STEP = "ASDF_BENCHMARK_KILL_AT_STEP"
PATH = "benchmarks.gpu.killing.KillAtStep"


class KillAtStep(Callback):
    """Kills its process after a step, as an out-of-memory kill or a lost node would.

    The environment states the step.
    """

    def on_step(self, record: dict[str, Any]) -> None:
        """Kill the process after the given step; called after each printed step."""
        if record["step"] == int(os.environ.get(STEP, "0")):
            os.kill(os.getpid(), signal.SIGKILL)
