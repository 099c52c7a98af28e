"""Write the embeddings of a list's recordings: what the network hears of each.

    python -m asdf embed network.pt dev_list.txt --output dev.npz        # list or table of trials
    python -m asdf embed network.pt protocol.txt --folder LA --output e.npz
    python -m asdf embed network.pt asvspoof19-eval --folder /data --output eval.npz
    python -m asdf embed network.pt recordings/ --output own.npz         # all audio in a folder
    python -m asdf embed network.pt dev_list.txt --output dev.npz --processes 4
    python -m asdf embed dev.npz --picture points.svg --by attack        # a picture of a file

The file (NumPy's npz) holds embeddings (N, E), scores, ids, labels, the columns of the list and how
they were computed. Recordings count as far as trial scores hear them. Those that cannot be read are
reported, and the others written; the exit status is then 1. Any number of processes (--processes,
torchrun, srun) writes the same bytes; after Ctrl-C, SIGTERM, `kill -9` or a crash the same command
goes on where it was.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.embed_picture import add_picture_options, check_picture, draw_picture
from asdf.commands.options import NETWORK_HELP, command_parser
from asdf.commands.outputs import check_file, show
from asdf.errors import AsdfError, UsageError

if TYPE_CHECKING:
    from asdf.trials.embeddings import Embeddings

SUFFIX = ".npz"


def main(arguments: list[str]) -> int:
    """Write embeddings, a picture of them, or both.

    Returns:
        0; 1 if recordings could not be used, and the others are written; 130 if it was stopped.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: a recording, the list or the network cannot be read, or an output not be written.
    """
    args = _parser().parse_args(arguments)
    _check(args)
    if args.list is None:
        from asdf.trials.embeddings import read_embeddings

        draw_picture(args, read_embeddings(Path(args.network)))
        return 0
    if args.processes > 1 and "LOCAL_RANK" not in os.environ:
        _become_torchrun(args.processes, arguments)
    # From here on torch is needed, which takes seconds to import.
    from asdf.commands.embed_running import embed
    from asdf.distributed.stopping import Stopped

    try:
        with _once_on_screen():
            embeddings = embed(args)
    except Stopped as stop:
        show(str(stop), sys.stderr)
        return 130
    if embeddings is not None:
        _describe(args.output, embeddings)
        if args.picture:
            draw_picture(args, embeddings)
        return int(embeddings.how.get("skipped", 0) > 0)
    return 0


@contextmanager
def _once_on_screen() -> Iterator[None]:
    """End a process quietly whose main process reports the same error."""
    try:
        yield
    except AsdfError as error:
        if error.reported_by_main:
            raise SystemExit(error.exit_status) from None
        raise


def _describe(path: Path, embeddings: Embeddings) -> None:
    count, dimension = embeddings.embeddings_NE.shape
    show(f"written to {path}: {count:,} embeddings of {dimension} numbers")


def _become_torchrun(processes: int, arguments: list[str]) -> None:
    # --standalone takes a free port, so that several commands can share a machine.
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    # In this process, so that its number, signals and exit status stay those of the command.
    os.execv(sys.executable, [sys.executable, *launcher, "-m", "asdf", "embed", *arguments])


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("embed", __doc__, "NETWORK LIST --output OUT.npz [options]")
    parser.add_argument(
        "network", metavar="NETWORK", help=f"{NETWORK_HELP}; or an .npz file, for a picture of it"
    )
    parser.add_argument(
        "list",
        nargs="?",
        metavar="LIST",
        help="a list, a table of trials, a protocol, a folder of recordings, or a corpus by name",
    )
    parser.add_argument("--output", type=Path, metavar="OUT", help="the file to write (.npz)")
    parser.add_argument(
        "--folder",
        type=Path,
        help="what paths in the list are relative to (its folder); of a protocol or a corpus, "
        "where the recordings are",
    )
    parser.add_argument(
        "--subset", metavar="S", help="only the trials of this subset of a protocol"
    )
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="processes to start here (1)"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="CPU threads of each process (1)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=2,
        metavar="N",
        help="processes that read recordings, for each process; 0: none (2)",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "tf32", "bf16"),
        default="auto",
        help="as of `score`",
    )
    parser.add_argument(
        "--engine", choices=("packed", "plain"), default="packed", help="as of `score` (packed)"
    )
    parser.add_argument("--base", metavar="WEIGHTS", help="as of `score`")
    parser.add_argument(
        "--network-folder", type=Path, metavar="FOLDER", help="the module of your own class"
    )
    add_picture_options(parser)
    return parser


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that do not go together."""
    check_picture(args)
    if args.list is None:
        if Path(args.network).suffix != SUFFIX:
            raise UsageError("name a network and a list, or an .npz file for a picture of it.")
        if not args.picture:
            raise UsageError(f"{args.network}: say what to write with --picture OUT.svg.")
        return
    if args.output is None:
        raise UsageError("--output OUT.npz says where the embeddings go.")
    check_file(args.output)
    if args.output.suffix != SUFFIX:
        raise UsageError(f"--output {args.output}: the file is an .npz file.")
    if args.processes < 1 or args.threads < 1 or args.workers < 0:
        raise UsageError("--processes and --threads are 1 or more, --workers 0 or more.")
