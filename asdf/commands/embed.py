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

import json
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from asdf.arrays import Singles
from asdf.commands.options import NETWORK_HELP, Command, WeightsOptions, argument, option
from asdf.commands.outputs import check_file, show
from asdf.commands.score import Precision
from asdf.distributed.launchers import become_torchrun
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import atomic_write, digest_of, lock_work, sha256_of
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.distributed.stopping import StopRequest
    from asdf.distributed.world import World
    from asdf.scoring.scorer import Scorer
    from asdf.trials.trial_list import TrialList


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
    from asdf.distributed.stopping import Stopped

    try:
        embeddings = embed(args)
    except Stopped as stop:
        show(str(stop), sys.stderr)
        return 130
    except Exception as error:
        # The main process reports the same error.
        if getattr(error, "reported_by_main", False):
            raise SystemExit(getattr(error, "exit_status", 1)) from None
        raise
    if embeddings is not None:
        count, dimension = embeddings.embeddings_NE.shape
        show(f"written to {args.output}: {count:,} embeddings of {dimension} numbers")
        return int(embeddings.how.get("skipped", 0) > 0)
    return 0


# Of each process: --processes gives every core one.
_THREADS = 1
_USE_GPU: dict[str, Any] = {"auto": True, "cpu": False, "cuda": "required"}


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The embeddings of a list.

    Attributes:
        embeddings_NE: Embeddings of the trials, (N, E) float32.
        scores_N: Scores of the network itself, (N,) float32.
        how: Description of how they were computed, as plain values.
    """

    trials: TrialList
    embeddings_NE: Singles
    scores_N: Singles
    how: Mapping[str, Any] = field(default_factory=dict)


def embed(args: EmbedOptions) -> Embeddings | None:
    """Compute and write the embeddings; return them on the main process.

    Raises:
        InUseError: another process writes the same output.
        UsageError: a mistake in the options.
        AsdfError: something cannot be read or written.
        Stopped: a stop was requested.
    """
    from asdf.distributed.stopping import StopRequest
    from asdf.distributed.world import open_world
    from asdf.runs.log import log_to_screen
    from asdf.settings.sections import Computing

    computing = Computing(use_gpu=_USE_GPU[args.device], threads=_THREADS)
    stop = StopRequest()
    output = args.output.resolve()
    folder = output.parent / f".{output.name}.progress"
    # Released last, so that no other command begins in a folder that is being removed.
    with open_world(computing) as world, world.listening(stop), ExitStack() as held:
        log_to_screen(world.is_main)

        def claim() -> None:
            held.enter_context(lock_work(folder, output))

        world.run_on_main(claim)
        embeddings = _embed(args, world, stop, folder)
        # No process may still use the folder when it is removed.
        world.barrier()
        if world.is_main:
            shutil.rmtree(folder)
        return embeddings


def _embed(args: EmbedOptions, world: World, stop: StopRequest, folder: Path) -> Embeddings | None:
    from asdf.commands.lists import read_recordings
    from asdf.data.lengths import measure_lengths
    from asdf.interchange import find_network, read_detector
    from asdf.networks.extras import EMBEDDING
    from asdf.scoring.score_list import build_list_scorer, score_with_extras

    # The main process downloads first, so that the others find the file.
    path = world.run_on_main(lambda: find_network(args.network))
    network, file = read_detector(path, args.network_folder, args.base)
    settings = file.to_sections(folder=args.network_folder)
    # The file's own values are of the machine that the network was trained on.
    computing = settings.computing
    computing.network_dataloader_workers, computing.threads = args.workers, _THREADS
    computing.scoring_precision, computing.scoring_engine = args.precision, "packed"
    # As in `Detector`: an embedding does not depend on the other recordings in its batch.
    settings.network.max_cut_proportion = 0.0
    scorer = build_list_scorer(network.eval(), settings, world, owns_network=True)
    trials = read_recordings(args.list, args.folder, args.subset)
    # The files in a folder are unchecked, so all are decoded first; those of a list are known.
    check = Path(args.list).is_dir()
    table, sad, audio = folder / "lengths", settings.sad, settings.audio
    lengths = measure_lengths(trials, sad, table, world, stop, check, skip_broken=True, audio=audio)
    usable = np.flatnonzero(lengths)
    if not usable.size:
        raise AsdfError(
            f"{trials.name}: none of its {len(trials)} recordings can be used; the reasons are "
            "above. Check --folder and the list."
        )
    skipped = len(trials) - usable.size
    if skipped:
        trials, lengths = trials.select(usable), lengths[usable]
    # On the main process alone, since the digest reads the whole network file.
    how = world.run_on_main(lambda: _work_of(args, path, scorer, sad.mode, trials, skipped))
    rows = folder / "trials"
    scored = score_with_extras(scorer, trials, lengths, settings, world, stop, [EMBEDDING], rows)

    def write() -> None:
        assert scored is not None
        embeddings = Embeddings(trials, scored.extras[EMBEDDING], scored.scores, how)
        write_embeddings(args.output, embeddings)
        written.append(embeddings)

    # As a result of `run_on_main`, the embeddings would be sent to every process.
    written: list[Embeddings] = []
    world.run_on_main(write)
    return written[0] if written else None


def _work_of(
    args: EmbedOptions, path: Path, scorer: Scorer, sad: str, trials: TrialList, skipped: int
) -> dict[str, Any]:
    """Return everything that the embeddings depend on, as plain values."""
    from asdf.interchange import describe_source

    return {
        "asdf": VERSION,
        "network": Path(describe_source(args.network, path)).name,
        # For a file, equal to the output of `sha256sum`.
        "sha256": digest_of(path) if path.is_dir() else sha256_of(path),
        "scored": scorer.length.record(),
        "sad": sad,
        "precision": scorer.precision,
        "engine": scorer.engine,
        "device": scorer.device.type,
        "threads": _THREADS,
        "list": trials.name,
        "trials": trials.digest(),
        # Left out if there are none, so that the bytes of such files do not change.
        **({"skipped": skipped} if skipped else {}),
    }


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a file of embeddings atomically: `column_NAME` for each column, and `how` as JSON.

    Raises:
        AsdfError: it cannot be written.
    """
    trials = embeddings.trials
    arrays: dict[str, np.ndarray] = {
        "embeddings": embeddings.embeddings_NE,
        "scores": embeddings.scores_N,
        "ids": np.array(list(trials.ids), np.str_),
        "labels": trials.labels,
        # Keys are sorted, so that equal content gives equal bytes.
        "how": np.array(json.dumps(dict(embeddings.how), sort_keys=True)),
    }
    for name, values in trials.columns.items():
        arrays[f"column_{name}"] = np.array(list(values), np.str_)
    # numpy does not store a time in the entries of a zip file, so equal content gives equal bytes.
    # The type annotations of its keywords differ between versions of numpy.
    save: Any = np.savez
    with atomic_write(path, "wb") as file:
        save(file, **arrays)
