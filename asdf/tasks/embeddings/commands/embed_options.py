"""Options of `python -m asdf embed`, and checks before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from asdf.commands.divided import DividedOptions
from asdf.commands.options import NETWORK_HELP, WeightsOptions, argument, option
from asdf.commands.outputs import check_file
from asdf.commands.score_options import Engine, Precision
from asdf.errors import UsageError
from asdf.remote import refuse_unwritable
from asdf.tasks.embeddings.commands.embed_picture import PictureOptions

SUFFIX = ".npz"


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(PictureOptions, WeightsOptions, DividedOptions):
    """Options of the command."""

    network: str = argument(f"{NETWORK_HELP}; or an .npz file, for a picture of it", "NETWORK")
    list: str = argument(
        "a list, a table of trials, a protocol, a folder of recordings, or a corpus by name",
        "LIST",
        default="",
    )
    output: Path | None = option("the file to write (.npz)", "OUT", short="-o", needed=True)
    folder: Path | None = option(
        "what paths in the list are relative to (its folder); of a protocol or a corpus, where "
        "the recordings are"
    )
    subset: str | None = option("only the trials of this subset of a protocol", "S")
    processes: int = option("processes to start here", "N", default=1)
    threads: int = option("CPU threads of each process", "N", default=1)
    workers: int = option(
        "processes that read recordings, for each process; 0: none", "N", default=2
    )
    device: Literal["auto", "cpu", "cuda"] = option("what it computes on", default="auto")
    precision: Precision = option("as of `score`", default="auto")
    engine: Engine = option("as of `score`", default="packed")


def check_options(args: EmbedOptions) -> None:
    """Raise a UsageError for contradictory options."""
    if not args.list:
        if Path(args.network).suffix != SUFFIX:
            raise UsageError("name a network and a list, or an .npz file for a picture of it.")
        if not args.picture:
            raise UsageError(f"{args.network}: say what to write with --picture OUT.svg.")
        return
    if args.output is None:
        raise UsageError("--output OUT.npz says where the embeddings go.")
    check_file(args.output)
    refuse_unwritable(args.output)
    if args.is_divided and args.picture:
        raise UsageError("--picture is of the whole file: draw it when the parts are merged.")
    if args.ray is not None and args.processes > 1:
        raise UsageError("--ray starts processes itself: leave --processes out.")
    if args.output.suffix != SUFFIX:
        raise UsageError(f"--output {args.output}: the file is an .npz file.")
    if args.processes < 1 or args.threads < 1 or args.workers < 0:
        raise UsageError("--processes and --threads are 1 or more, --workers 0 or more.")
