"""The options of `embed`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Literal

from asdf.commands.options import NETWORK_HELP, WeightsOptions, argument, option
from asdf.commands.score_options import Precision


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(WeightsOptions):
    """Options of the command."""

    network: str = argument(NETWORK_HELP, "NETWORK")
    list: str = argument(
        "list, table of trials, protocol, folder of recordings, or name of a corpus", "LIST"
    )
    output: Path = option("output file (.npz)", "OUT", default=MISSING, short="-o")
    folder: Path | None = option(
        "folder that paths in the list are relative to (the folder of the list), or that contains "
        "the recordings of a protocol or corpus"
    )
    subset: str | None = option("use only this subset of a protocol", "S")
    processes: int = option("number of processes on this machine", "N", default=1)
    workers: int = option(
        "number of additional processes per process that read recordings", "N", default=2
    )
    device: Literal["auto", "cpu", "cuda"] = option("device", default="auto")
    precision: Precision = option("number format, as in `score`", default="auto")
