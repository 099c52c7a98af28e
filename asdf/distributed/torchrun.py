"""torchrun in the place of a command that asks for several processes.

torchrun passes some signals on, kills its processes 30 s later, which the checkpoint of a large
network may exceed, and ends with a traceback; of others, it dies and leaves them behind. Here every
stop signal creates the stop file, and the run ends as that of a single process.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

from asdf.distributed.stopping import SIGNALS


def become_torchrun(processes: int, words: list[str]) -> None:
    """Start the Python program `words` in `processes` processes; does not return.

    In this process, so that its number, signals and exit status stay those of the command.
    """
    # --standalone takes a free port, so that several runs can share a machine.
    launcher = ["-m", "asdf.distributed.torchrun", "--standalone", f"--nproc_per_node={processes}"]
    os.execv(sys.executable, [sys.executable, *launcher, *words])


def main() -> None:
    """Run torchrun with the program's arguments until its processes end."""
    # The variable of the option, which not every version has, and the one that it sets. torchrun
    # keeps the signals of a terminal that closes, and of Ctrl-\.
    for name in ("PET_SIGNALS_TO_HANDLE", "TORCHELASTIC_SIGNALS_TO_HANDLE"):
        os.environ[name] = "SIGHUP,SIGQUIT"
    with tempfile.TemporaryDirectory(prefix="asdf-") as folder:
        path = Path(os.environ.setdefault("ASDF_STOP_FILE", str(Path(folder) / "stop")))
        created: list[Path] = []

        def on_signal(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGINT:  # a second one interrupts at once
                signal.signal(number, signal.default_int_handler)
            if not path.exists():
                created.append(path)
                path.touch()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        from torch.distributed.run import main as run

        try:
            run()
        finally:
            # A user's stop file would also stop the next run.
            for file in created:
                file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
