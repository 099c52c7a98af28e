"""A Python that has imported torch already, for tests that start many programs.

Importing torch takes seconds, and most programs that the tests start need no more than that. So one
process, the server, imports it once and forks for each of them. A program is a process of its own,
with its own arguments, streams, variables and folder, and with the exit status or the signal that
ended it. What it does not have is a Python of its own: nothing that Python or torch read when they
start, such as PYTHONPATH or OMP_NUM_THREADS, can be another than the server's.

`client.py` is started in place of Python, takes the same arguments, and stands for the program: it
hands signals on, and when it is killed the program is killed, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@contextmanager
def warm_python(folder: Path, variables: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Yield an executable that takes the arguments of `python`; it is of no use afterwards.

    Args:
        folder: where the executable and the server's socket are put; its path has to be short, as
            sockets want it.
        variables: of the server's environment, besides those of this process.
    """
    socket = folder / "warm.socket"
    executable = folder / "python"
    # -I, -S: it imports nothing of the environment, and so starts in ten milliseconds.
    line = f'exec "{sys.executable}" -I -S "{HERE / "client.py"}" "{socket}" "$@"'
    executable.write_text(f"#!/bin/sh\n{line}\n")
    executable.chmod(0o755)
    command = [sys.executable, "-m", "tests.warm_python.server", str(socket), str(executable)]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **(variables or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == b"ready\n"
        yield executable
    finally:
        # The server ends with its input, also when this process is killed.
        server.stdin.close()
        # A process that a test left behind, such as a loader's worker, holds the input open too.
        server.terminate()
        server.wait()
        server.stdout.close()
