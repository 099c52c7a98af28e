"""Write the embeddings of the recordings of a list.

    python -m asdf embed network.pt dev_list.txt --output dev.npz        # list or table of trials
    python -m asdf embed network.pt protocol.txt --folder LA --output e.npz
    python -m asdf embed network.pt asvspoof19-eval --folder /data --output eval.npz
    python -m asdf embed network.pt recordings/ --output own.npz         # all audio in a folder

The file (NumPy's npz) has embeddings (N, E), scores, ids, labels and the columns of the list.
Recordings that cannot be read are reported and left out, and the exit status is then 1. Any number
of processes (--processes, torchrun, srun) writes the same bytes. After a stop or a crash, the same
command resumes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from asdf.commands.embed_options import EmbedOptions
from asdf.commands.options import Command
from asdf.commands.outputs import check_file, show
from asdf.distributed.launchers import become_torchrun
from asdf.errors import UsageError

COMMAND = Command("embed", __doc__, EmbedOptions)


def main(arguments: list[str]) -> int:
    """Write embeddings.

    Returns:
        0; 1 if recordings could not be used, but the others are written; 130 if stopped.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a recording, the list or the network cannot be read, or an output cannot be
            written.
    """
    args = COMMAND.read(arguments)
    check_file(args.output)
    if args.output.suffix != ".npz":
        raise UsageError(f"--output {args.output}: the name must end in .npz.")
    if args.processes < 1 or args.workers < 0:
        raise UsageError("--processes must be at least 1, and --workers must not be negative.")
    # torchrun sets LOCAL_RANK in the processes that it starts, which must not start others.
    if args.processes > 1 and "LOCAL_RANK" not in os.environ:
        become_torchrun(args.processes, ["-m", "asdf", "embed", *arguments])
    # torch is needed from here on, and takes seconds to import.
    from asdf.commands.embed_running import embed
    from asdf.distributed.stopping import Stopped

    try:
        with _once_on_screen():
            embeddings = embed(args)
    except Stopped as stop:
        show(str(stop), sys.stderr)
        return 130
    if embeddings is not None:
        count, dimension = embeddings.embeddings_NE.shape
        show(f"written to {args.output}: {count:,} embeddings of {dimension} numbers")
        return int(embeddings.how.get("skipped", 0) > 0)
    return 0


@contextmanager
def _once_on_screen() -> Iterator[None]:
    """End a process silently if its main process reports the same error."""
    try:
        yield
    except Exception as error:
        if getattr(error, "reported_by_main", False):
            raise SystemExit(getattr(error, "exit_status", 1)) from None
        raise
