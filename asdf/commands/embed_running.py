"""Execution of `python -m asdf embed`: processes, network, parts and file.

An npz file holds `embeddings` (N, E) float32, `scores` (N,) float32, `ids`, `labels` (1 bona fide,
0 spoof, -1 unknown), `column_NAME` for each column of the list, and `how`, JSON that describes how
they were computed.

Invariant: the same list, network and options give the same bytes. Parts saved next to the output
belong to the same work (network, recordings, lengths and arithmetic), or are removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.arrays import Singles
from asdf.commands.embed_options import EmbedOptions
from asdf.commands.score_recordings import read_recordings
from asdf.data.lengths import measure_lengths
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World, open_world
from asdf.errors import AsdfError
from asdf.interchange import describe_source, find_network, read_detector
from asdf.networks.extras import EMBEDDING
from asdf.runs.files import atomic_write, digest_of, lock_work, sha256_of
from asdf.runs.log import log_to_screen
from asdf.scoring.computing import agree_on_engine, agree_on_precision
from asdf.scoring.score_list import score_with_extras
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Computing
from asdf.version import VERSION

if TYPE_CHECKING:
    from asdf.trials.trial_list import TrialList

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
    computing = Computing(use_gpu=_USE_GPU[args.device], threads=_THREADS)
    stop = StopRequest()
    with open_world(computing) as world, world.listening(stop):
        log_to_screen(world.is_main)
        with _parts_folder(args.output, world) as folder:
            return _embed(args, world, stop, folder)


def _embed(args: EmbedOptions, world: World, stop: StopRequest, folder: Path) -> Embeddings | None:
    # The main process downloads first, so that the others find the file.
    path = world.run_on_main(lambda: find_network(args.network))
    network, file = read_detector(path, args.network_folder, args.base)
    settings = file.to_sections(folder=args.network_folder)
    # The file's own values are of the machine that the network was trained on.
    settings.computing.network_dataloader_workers = args.workers
    settings.computing.threads = _THREADS
    # As in `Detector`: an embedding does not depend on the other recordings in its batch.
    settings.network.max_cut_proportion = 0.0
    precision = agree_on_precision(args.precision, world)
    engine = agree_on_engine("packed", precision, world)
    scorer = Scorer(
        network.eval(),
        settings.network,
        precision,
        world.smallest_gpu(),
        engine=engine,
        owns_network=True,
        audio=settings.audio,
    )
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
    how = world.run_on_main(lambda: _describe_work(args, path, scorer, sad.mode, trials, skipped))
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


def _describe_work(
    args: EmbedOptions, path: Path, scorer: Scorer, sad: str, trials: TrialList, skipped: int
) -> dict[str, Any]:
    """Return everything that the embeddings depend on, as plain values."""
    return {
        "asdf": VERSION,
        "network": Path(describe_source(args.network, path)).name,
        # For a file, equal to the output of `sha256sum`.
        "sha256": digest_of(path) if path.is_dir() else sha256_of(path),
        "scored": scorer.length.record(),
        "sad": sad,
        "precision": scorer.precision.name,
        "engine": scorer.engine,
        "device": scorer.device.type,
        "threads": _THREADS,
        "list": trials.name,
        "trials": trials.digest(),
        # Left out if there are none, so that the bytes of such files do not change.
        **({"skipped": skipped} if skipped else {}),
    }


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write a file of embeddings atomically.

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


@contextmanager
def _parts_folder(output: Path, world: World) -> Iterator[Path]:
    """Yield the folder of parts next to an output.

    It is removed when the block ends without error.

    Raises:
        InUseError: another command writes the same output.
    """
    output = output.resolve()
    folder = output.parent / f".{output.name}.progress"

    def claim() -> None:
        held.enter_context(lock_work(folder, output))

    # Released last, so that no other command begins in a folder that is being removed.
    with ExitStack() as held:
        world.run_on_main(claim)
        yield folder
        # No process may still use the folder when it is removed.
        world.barrier()
        if world.is_main:
            shutil.rmtree(folder)
