"""Packing of a list of recordings into shards.

Invariant: the shard of each recording, and every byte of the shards, depend only on the list, the
options and the recordings, not on the number of processes or on interruptions. `NAME_pack.json`
lists the complete shards, after which work resumes. The list of the pack is written last: if it
exists, everything is complete and counted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from asdf.archives import file_size, open_file
from asdf.data.packed_lengths import read_packed_lengths
from asdf.errors import AsdfError, UsageError
from asdf.packing.encoding import Encoded, encode
from asdf.packing.member_names import member_names
from asdf.packing.shard_files import Entry, describe, write_shard
from asdf.remote import refuse_unwritable
from asdf.runs.files import (
    atomic_write,
    one_at_a_time,
    remove_unfinished,
    write_advice,
    write_text,
)
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.runs.seeds import generator
from asdf.trials.table import write_trials
from asdf.trials.trial_list import UNLABELLED, TrialList

_VERSION = 1
# Recordings that a process gets in advance, so that it never waits, but a stop waits for few.
_AHEAD = 8
_LABELS = {1: "bonafide", 0: "spoof"}
# Size of the end of a tar, up to a record of 10 kB.
_END = 10240


@dataclass(frozen=True)
class PackOptions:
    """Options for packing a list.

    Attributes:
        name: Prefix of the names of the files.
        shard_bytes: Maximum size of a shard in bytes; a single recording may exceed it.
        form: Format of the recordings, one of `asdf.packing.FORMATS`.
        seed: Seed of the order; None: the order of the list.
        skip_broken: Whether to leave out and count unreadable recordings.
        processes: Number of encoding processes; 0: only this one.
    """

    name: str
    shard_bytes: int
    form: str = "keep"
    seed: int | None = 0
    skip_broken: bool = False
    processes: int = 0


@dataclass(frozen=True)
class Shard:
    """A complete shard, as recorded in `NAME_pack.json`.

    Attributes:
        stop: Number of recordings in the order up to its end.
        size, sha256: Size of the tar in bytes, and its digest.
        rounded: Number of its recordings of floats that were rounded to 24 bits.
        broken: Messages on skipped recordings before its end, by their indices in the list.
    """

    name: str
    stop: int
    recordings: int
    size: int
    sha256: str
    rounded: int
    broken: dict[str, str]


@dataclass(frozen=True)
class Pack:
    """The result of packing.

    Attributes:
        list_file: List of all recordings.
        shards: Shards in their order.
        was_there: Number of shards that were complete before.
    """

    list_file: Path
    shards: Sequence[Shard]
    was_there: int

    @property
    def recordings(self) -> int:
        return sum(shard.recordings for shard in self.shards)

    @property
    def size(self) -> int:
        """Total size of all shards in bytes."""
        return sum(shard.size for shard in self.shards)

    @property
    def rounded(self) -> int:
        """Number of recordings of floats that were rounded."""
        return sum(shard.rounded for shard in self.shards)

    @property
    def broken(self) -> list[str]:
        """Messages on the recordings that were left out."""
        return [message for shard in self.shards for message in shard.broken.values()]


def pack_list(trials: TrialList, folder: Path, options: PackOptions) -> Pack:
    """Pack a list, or resume an interrupted call.

    Raises:
        UsageError: the folder has a pack of this name from another list or with other options, or
            trials are compared with references.
        AsdfError: a recording cannot be read, or a shard cannot be written.
    """
    if trials.references is not None:
        raise UsageError(
            f"{trials.name}: its trials are compared with reference recordings, whose paths a "
            "shard would change. Pack a list without the column 'reference'."
        )
    packing = _Packing(trials, folder, options)
    with packing.alone():
        before = packing.read_state()
        shards = list(before)
        if shards:
            LOG.info(
                "%d shards of %s are complete: continuing after them", len(shards), options.name
            )
        first = shards[-1].stop if shards else 0
        for shard in packing.write_shards(first, len(shards)):
            shards.append(shard)
            # After each shard, so that a killed command loses no more than one.
            packing.write_state(shards)
        if not shards:
            raise AsdfError(f"{trials.name}: none of its {len(trials):,} recordings can be read.")
        packing.write_list(shards)
    return Pack(packing.list_file, shards, len(before))


class _Packing:
    """The packing of a list in progress."""

    def __init__(self, trials: TrialList, folder: Path, options: PackOptions) -> None:
        self._trials = trials
        self._folder = folder
        self._options = options
        self._names = member_names(trials.ids)
        self._order = np.arange(len(trials))
        if options.seed is not None:
            self._order = generator(options.seed, "pack").permutation(len(trials))
        self._state = folder / f"{options.name}_pack.json"
        self.list_file = folder / f"{options.name}_list.txt"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until no other process writes this pack.

        Raises:
            AsdfError: the folder cannot be created.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise AsdfError(write_advice(self._folder, error)) from error
        refuse_unwritable(self._folder)
        with one_at_a_time(self._state):
            yield

    def read_state(self) -> list[Shard]:
        """Return the complete shards.

        Raises:
            UsageError: they are of another list, or were packed with other options.
        """
        if not self._state.is_file():
            return []
        try:
            with open_file(self._state) as file:
                state = json.loads(file.read())
            shards = [Shard(**shard) for shard in state.pop("shards")]
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise AsdfError(
                f"{self._state} cannot be read ({error}). Remove it to pack everything again."
            ) from None
        changed = []
        for key, value in self._facts().items():
            if state.get(key) != value:
                changed.append(f"{key} {state.get(key)} there, {value} now")
        if changed:
            raise UsageError(
                f"{self._folder} has a different pack {self._options.name!r} "
                f"({'; '.join(changed)}). Give the options that it was started with, another "
                f"--name or another folder; or remove {self._state.name} to overwrite it."
            )
        return shards

    def _facts(self) -> dict[str, Any]:
        """Return the facts that a pack depends on."""
        digest = hashlib.sha256()
        digest.update(self._trials.labels.tobytes())
        for values in (self._trials.ids, *self._trials.columns.values()):
            digest.update("\n".join(values).encode("utf-8", "surrogateescape") + b"\0")
        digest.update("\n".join(self._trials.columns).encode())
        return {
            "version": _VERSION,
            "list": digest.hexdigest()[:16],
            "recordings": len(self._trials),
            # The same names in another folder are other recordings.
            "folder": str(self._trials.folder.absolute()),
            "seed": self._options.seed,
            "format": self._options.form,
            "shard_bytes": self._options.shard_bytes,
            "without_broken": self._options.skip_broken,
        }

    def write_state(self, shards: Sequence[Shard]) -> None:
        """Record the complete shards."""
        entries = [vars(shard) for shard in shards]
        write_text(self._state, json.dumps({**self._facts(), "shards": entries}, indent=1) + "\n")

    def write_shards(self, first: int, number: int) -> Iterator[Shard]:
        """Write the recordings from `first` of the order on; yield each complete shard."""
        broken: dict[str, str] = {}
        portion = _Portion(self._entries(first, broken), self._options.shard_bytes)
        while portion.pending is not None:
            name = f"{self._options.name}-{number:06d}.tar"
            # Left by a killed process; no other process writes this pack.
            remove_unfinished(self._folder, output=name)
            written = write_shard(self._folder / name, portion.take())
            stop = len(self._order)
            if portion.pending is not None:
                stop = portion.pending.position
            # Broken recordings after its last one are recorded with the shard too, in a copy: the
            # dictionary is emptied for the next one.
            yield Shard(
                name, stop, portion.taken, written.size, written.sha256, portion.rounded, {**broken}
            )
            broken.clear()
            number += 1

    def _entries(self, first: int, broken: dict[str, str]) -> Iterator[Entry]:
        """Yield the recordings from `first` of the order on, recording broken ones.

        Raises:
            AsdfError: a recording cannot be read, and must not be left out.
        """
        rest = self._order[first:].tolist()
        paths = [str(self._trials.path(index)) for index in rest]
        encoded = _encode_all(paths, self._options)
        done = track(zip(rest, encoded, strict=True), len(rest), "packing", unit="recordings")
        for position, (index, recording) in enumerate(done, first):
            if isinstance(recording, Encoded):
                description = describe(self._facts_of(index), recording)
                yield Entry(position, self._names[index], recording, description)
            elif self._options.skip_broken:
                broken[str(index)] = recording
            else:
                raise AsdfError(
                    f"{recording}\nThe shards before it are complete, and the same command "
                    "continues after them. --skip-broken leaves out what cannot be read, and "
                    "counts it."
                )

    def _facts_of(self, index: int) -> dict[str, str | int]:
        facts: dict[str, str | int] = {}
        for column, values in self._trials.columns.items():
            facts[column] = values[index]
        facts["id"] = self._trials.ids[index]
        label = int(self._trials.labels[index])
        if label != UNLABELLED:
            facts["label"] = _LABELS[label]
        return facts

    def write_list(self, shards: Sequence[Shard]) -> None:
        """Write the list of all recordings in the order of the shards.

        Raises:
            AsdfError: the numbers differ from those of the shards.
        """
        ids: list[str] = []
        left_out: set[int] = set()
        for shard in shards:
            lengths = read_packed_lengths(self._folder / shard.name, shard.size)
            is_there = file_size(self._folder / shard.name) == shard.size
            if not is_there or lengths is None or len(lengths) != shard.recordings:
                raise AsdfError(
                    f"{self._folder / shard.name}: the shard or its file of lengths is missing or "
                    f"damaged. Remove {self._state.name} to pack everything again."
                )
            ids += [f"{shard.name}/{each.name}" for each in lengths]
            left_out.update(map(int, shard.broken))
        indices = np.array([index for index in self._order.tolist() if index not in left_out])
        if len(indices) != len(ids):
            raise AsdfError(
                f"{self._folder}: {len(ids):,} recordings are in the shards, but {len(indices):,} "
                f"were expected. Remove {self._state.name} to pack everything again."
            )
        packed = replace(self._trials.select(indices), ids=ids, folder=self._folder)
        # A table of trials has no row without a label.
        if packed.count_unlabelled:
            with atomic_write(self.list_file) as file:
                file.writelines(f"{name}\n" for name in ids)
        else:
            write_trials(self.list_file, packed)


class _Portion:
    """Iterator over the recordings of one shard after another.

    Attributes:
        pending: First recording of the next shard; None at the end.
        taken: Number of recordings in the last shard.
        rounded: Number of rounded recordings among them.
    """

    def __init__(self, entries: Iterator[Entry], most_bytes: int) -> None:
        self._entries = entries
        self._most_bytes = most_bytes
        self.pending = next(entries, None)
        self.taken = 0
        self.rounded = 0

    def take(self) -> Iterator[Entry]:
        """Yield the recordings of the next shard: at least one, up to its maximum size."""
        self.taken = 0
        self.rounded = 0
        size = _END
        while self.pending is not None:
            size += self.pending.size
            if self.taken and size > self._most_bytes:
                return
            self.taken += 1
            self.rounded += self.pending.recording.is_rounded
            yield self.pending
            self.pending = next(self._entries, None)


def _encode_all(paths: Sequence[str], options: PackOptions) -> Iterable[Encoded | str]:
    """Yield each recording as it is packed, in order.

    Raises:
        AsdfError: a process was killed.
    """
    encode_one = partial(encode, form=options.form)
    if options.processes < 1:
        yield from map(encode_one, paths)
        return
    share = options.processes * _AHEAD * 4
    # Spawned, because a forked process would inherit the threads of this one.
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        try:
            # In portions: `map` takes all paths at once, and its results would fill the memory.
            for start in range(0, len(paths), share):
                part = paths[start : start + share]
                yield from pool.map(encode_one, part, chunksize=_AHEAD)
        except BrokenProcessPool:
            raise AsdfError(
                "a process that encodes recordings was killed, likely because memory ran out. "
                "Complete shards are kept; start the same command again, with fewer --processes."
            ) from None
