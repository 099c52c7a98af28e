"""Saving of a sharded network by all of its processes, with torch.distributed.checkpoint.

Invariant: when the main process has the names of the files, each of them is complete on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict_saver import save
from torch.futures import Future

from asdf.checkpoint.stored_parts import KeyPath, PartFile, key_of
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.files import write_advice
from asdf.text import and_more

# A slow disk is not a failure here. If the main process waits too long for a file, this shows where
# the others wait for it (computing.main_timeout_s); a process that has died closes its connections.
_PATIENCE = timedelta(days=7)
_SHOWN = 4


class PartWriter:
    """Writes tensors that are sharded over the processes of `world`; every rank has one."""

    def __init__(self, world: World) -> None:
        """Open a group of connections that threads can use while training uses others.

        All ranks call this together.
        """
        self._group = dist.new_group(backend="gloo", timeout=_PATIENCE)
        on_gpu = world.device.type == "cuda"
        # Pinned memory is reused from one checkpoint to the next.
        options = StagingOptions(
            use_pinned_memory=on_gpu,
            use_shared_memory=False,
            use_async_staging=False,
            use_non_blocking_copy=on_gpu,
        )
        self._stager = DefaultStager(options)

    def copy(self, tensors: Mapping[KeyPath, Tensor]) -> dict[str, Any]:
        """Return copies of this process's shards in host memory, valid until the next call."""
        named = {key_of(path): tensor.detach() for path, tensor in tensors.items()}
        copies: Any = self._stager.stage(named)
        return dict(copies)

    def write(self, copies: dict[str, Any], folder: Path) -> dict[str, PartFile]:
        """Write the result of `copy` to files in `folder`, which does not exist yet.

        All ranks call this together, each in a thread.

        Returns:
            Files of all ranks, on the main one.

        Raises:
            AsdfError: a process cannot write its part, or the main one does not find it.
        """
        writer = _Writer(str(folder), save_distributed=True)
        try:
            save(copies, storage_writer=writer, process_group=self._group)
        except CheckpointException as error:
            rank, (reason, _) = next(iter(error.failures.items()))
            advice = f"cannot write {folder}: {reason}"
            if isinstance(reason, OSError):
                advice = write_advice(folder, reason)
            raise AsdfError(f"rank {rank}: {advice}") from error
        missing = [name for name in writer.files if not (folder / name).is_file()]
        if missing:
            raise AsdfError(
                "computing.shard_checkpoints: the main process does not find "
                f"{and_more(missing, _SHOWN)} in {folder}, which others wrote: its node uses "
                "another disk. Set paths.output_folder to a folder that all nodes share, or "
                "shard_checkpoints to False."
            )
        return writer.files


@dataclass(frozen=True)
class _Written:
    """A file written by a process; torch sends it to the main process with the results."""

    name: str
    file: PartFile


class _Writer(HuggingFaceStorageWriter):
    """Writes a safetensors file per process, and collects the files' sizes and checksums.

    Attributes:
        files: Files of all processes, on the main one.
    """

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(path, **options)
        self.files: dict[str, PartFile] = {}

    def write_data(self, plan: Any, planner: Any) -> Future[list[Any]]:
        """Write this process's shards, and measure the file."""
        # Waits, since only a complete file has its size and checksum.
        results = super().write_data(plan, planner).wait()
        measured: dict[str, _Written] = {}
        with_files = []
        for result in results:
            name = Path(result.storage_data.relative_path).name
            if name not in measured:
                measured[name] = _Written(name, PartFile.measure(Path(self.path) / name))
            with_files.append(replace(result, storage_data=measured[name]))
        future: Future[list[Any]] = Future()
        future.set_result(with_files)
        return future

    def finish(self, metadata: Any, results: list[list[Any]]) -> None:
        """Record the files of all processes, on the main one."""
        for of_process in results:
            for result in of_process:
                self.files[result.storage_data.name] = result.storage_data.file
