"""Pack recordings into shards: tars that ASDF, webdataset and lhotse's readers of tars read.

    python -m asdf pack train_list.txt --shards 1GB shards          # shards/train-000000.tar ...
    python -m asdf pack train_list.txt --shards 1GB --format flac --processes 4 shards
    python -m asdf pack asvspoof19-train --folder /data --shards 1GB shards
    python -m asdf pack 'lhotse:cuts.jsonl.gz' --shards 1GB --format flac shards

A sample is KEY.flac (or what it was) and KEY.json with its label and columns. Next to the tars lie
their indexes, the lengths of all recordings, which no run has to measure again, and train_list.txt,
a list like any other: paths.database_folder=shards and recipe.training_sets=('mini-train',), or
python -m asdf score NETWORK shards/train_list.txt.

Recordings are put in an order of --seed, so that every shard is a mixture. Each one is decoded to
its end, and each shard read back. Stopped or killed, the same command goes on behind the last whole
shard, and ends with the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.named_recordings import read_recordings
from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show
from asdf.errors import UsageError
from asdf.packing import FORMATS, Pack, PackOptions, pack_list, parse_size
from asdf.runs.streams import show_error
from asdf.text import lines_and_more
from asdf.trials.lists import check_files
from asdf.trials.trial_list import TrialList, describe_labels

_SHOWN = 10
_UNSAFE = re.compile(r"[^\w.-]+")


def _check_processes(processes: int) -> None:
    if processes < 0:
        raise UsageError(f"--processes {processes}: 0 or more are needed.")


@dataclass(frozen=True, kw_only=True)
class PackCommandOptions:
    """Options of the command."""

    recordings: str = argument(
        "a list, a table of trials, a protocol, a corpus or shards by name, or a folder", "LIST"
    )
    output: Path = argument("the folder of the shards", "FOLDER")
    shards: str = option("the size of a shard", "SIZE", "1GB")
    format: str = option(
        "the recordings' bytes as they are, FLAC (lossless), or Opus (lossy)",
        default="keep",
        choices=FORMATS,
    )
    folder: Path | None = option(
        "what paths in the list are relative to (its folder); where the recordings of a protocol "
        "or corpus are",
        "FOLDER",
    )
    name: str | None = option("the beginning of the names of the files (that of the list)", "NAME")
    seed: int = option("seed of the order", "N", 0)
    in_order: bool = flag("in the order of the list")
    skip_broken: bool = flag("leave out recordings that cannot be read, and say which")
    processes: int = option(
        "processes that read and encode; 0: none besides this one",
        "N",
        0,
        check=_check_processes,
    )


COMMAND = Command("pack", __doc__, PackCommandOptions)


def main(arguments: list[str]) -> int:
    """Pack a list; return 1 if recordings were left out, else 0.

    Raises:
        UsageError: a mistake in the options.
        AsdfError: recordings are missing or cannot be read, or a shard cannot be written.
    """
    args = COMMAND.read(arguments)
    shard_bytes = parse_size(args.shards)
    trials = read_recordings(args.recordings, args.folder, classes=True)
    check_files([trials])
    if args.name is not None and _UNSAFE.search(args.name):
        raise UsageError(
            f"--name {args.name}: file names begin with it: use letters, digits, '.', '_' and '-'."
        )
    options = PackOptions(
        name=args.name or _name_of(trials),
        shard_bytes=shard_bytes,
        form=args.format,
        seed=None if args.in_order else args.seed,
        skip_broken=args.skip_broken,
        processes=args.processes,
    )
    pack = pack_list(trials, args.output, options)
    show("\n".join(_describe(pack, trials)))
    if pack.broken:
        show_error(
            f"warning: {len(pack.broken)} recordings cannot be read and were left out:"
            f"{lines_and_more(pack.broken, _SHOWN)}"
        )
    return int(bool(pack.broken))


def _name_of(trials: TrialList) -> str:
    """Return the name of a pack's files: `train` for train_list.txt."""
    name = Path(trials.name.partition("?")[0]).name.removesuffix("_list")
    return _UNSAFE.sub("-", name).strip("-.") or "recordings"


def _describe(pack: Pack, trials: TrialList) -> list[str]:
    was_there = ""
    if pack.was_there:
        was_there = f", {pack.was_there} of which were there"
    lines = [
        f"{pack.list_file}",
        f"  recordings   {pack.recordings:,} of {len(trials):,} ({describe_labels(trials)})",
        f"  shards       {len(pack.shards):,}{was_there}; {pack.size / 1e9:,.2f} GB, read back "
        "and compared",
    ]
    if pack.rounded:
        lines.append(f"  rounded      {pack.rounded:,} recordings of floats, to 24 bits")
    return lines
