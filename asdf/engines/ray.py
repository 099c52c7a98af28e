"""Ray: parts of a command on its actors, and a network as a stage of Ray Data.

    import ray
    from asdf.engines.ray import Scorer

    recordings = ray.data.read_binary_files("lake/", include_paths=True)
    scored = recordings.map_batches(Scorer, fn_constructor_args=["network.pt"], batch_size=48)

Invariant: an actor computes a part like the command with --part, in the working folder of the
user's command. Results are therefore on the disk that the nodes share, instead of in
Ray's memory: finished work survives the loss of any actor, node or driver, and is never repeated.
"""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from asdf.errors import AsdfError, InUseError, UsageError
from asdf.runs.progress import track

Main = Callable[[list[str]], int]
"""Main function of a command: from its arguments to its exit status."""

# A killed actor, or a lost node, costs a part another attempt.
_TRIES = 3
# Processes left by a killed driver end by themselves.
_WAIT_FOR_OTHERS_S = 60.0
_LOOK_EVERY_S = 1.0


@dataclass(frozen=True)
class RayCluster:
    """The Ray cluster, and the resources of an actor.

    Attributes:
        address: Address of the cluster: 'auto', or host and port; None: RAY_ADDRESS, or this
            machine.
        cpus: Number of CPUs of an actor.
        uses_gpus: Whether an actor takes a GPU if there are any.
        shares_disk: Whether all nodes must have access to the command's folder, in which the parts
            are saved.
    """

    address: str | None = None
    cpus: int = 1
    uses_gpus: bool = True
    shares_disk: bool = True


class Done(NamedTuple):
    """The outcome of a command in an actor.

    Attributes:
        status: Exit status of the command.
        shown: Output on standard output.
        said: Output on standard error.
        error: Message of the error that ended it; ''.
    """

    status: int
    shown: str
    said: str
    error: str = ""


class Worker:
    """Runs commands in its own process, one after the other.

    Args:
        main: Main function of the command.
        folder: Working folder of the command.
        needs_folder: Whether to refuse a node without the folder.
    """

    def __init__(self, main: Main, folder: str, needs_folder: bool = True) -> None:
        self._main = main
        try:
            os.chdir(folder)
        except OSError as error:
            if not needs_folder:
                return
            raise AsdfError(
                f"{os.uname().nodename} cannot access {folder}: {error.strerror}. All nodes must "
                "share this folder, where the parts are saved."
            ) from None

    def run(self, words: list[str]) -> Done:
        """Run the command with these arguments."""
        shown, said = io.StringIO(), io.StringIO()
        try:
            with redirect_stdout(shown), redirect_stderr(said):
                status = self._run_when_free(words)
        except AsdfError as error:
            return Done(error.exit_status, shown.getvalue(), said.getvalue(), str(error))
        return Done(status, shown.getvalue(), said.getvalue())

    def _run_when_free(self, words: list[str]) -> int:
        """Run the command; if its output is in use by another process, wait for up to a minute."""
        until = time.monotonic() + _WAIT_FOR_OTHERS_S
        while True:
            try:
                return self._main(words)
            except InUseError:
                if time.monotonic() > until:
                    raise
                time.sleep(_LOOK_EVERY_S)


def run_parts(
    main: Main, parts: Sequence[list[str]], merge: list[str], cluster: RayCluster
) -> Done | None:
    """Run a command once per part, on as many actors as the cluster can hold.

    Args:
        main: Main function of the command, which the nodes can import.
        parts: Arguments of the command for each part.
        merge: Arguments of the command for merging them.

    Returns:
        Outcome of the merge, if an actor did it, on a GPU like the parts; None: the caller must
        merge.

    Raises:
        UsageError: Ray is not installed, or the cluster is not reachable.
        AsdfError: a part failed; the results of the others are saved.
    """
    with _connected(cluster.address) as ray:
        count, options = _room(ray, cluster, len(parts))
        # A lost actor is restarted, and resumes its part.
        actor = ray.remote(max_restarts=-1, max_task_retries=_TRIES, **options)(Worker)
        folder = str(Path.cwd())
        workers = [actor.remote(main, folder, cluster.shares_disk) for _ in range(count)]
        done = _spread(ray, workers, parts)
        for _ in track(done, len(parts), f"parts on {count} Ray actors", unit="parts"):
            pass
        if "num_gpus" not in options:
            return None
        [merged] = _spread(ray, workers[:1], [merge])
        return merged


def _spread(ray: Any, workers: list[Any], parts: Sequence[list[str]]) -> Iterator[Done]:
    """Give each idle actor the next part; yield the outcomes of parts.

    Raises:
        AsdfError: a part failed.
    """
    waiting = list(reversed(parts))
    idle = list(workers)
    running: dict[Any, tuple[Any, list[str]]] = {}
    while waiting or running:
        while idle and waiting:
            worker, words = idle.pop(), waiting.pop()
            running[worker.run.remote(words)] = (worker, words)
        [ended], _ = ray.wait(list(running), num_returns=1)
        worker, words = running.pop(ended)
        try:
            done: Done = ray.get(ended)
        except ray.exceptions.RayError as error:
            # Ray's text has the actor's traceback before the line with the error.
            reason = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
            raise AsdfError(f"{' '.join(words[-2:])} was lost: {reason}") from None
        if done.error:
            raise AsdfError(f"{' '.join(words[-2:])}: {done.error}")
        if done.status not in (0, 1):
            said = f"ended with status {done.status}: {done.said.strip()}"
            raise AsdfError(f"{' '.join(words[-2:])} {said}")
        idle.append(worker)
        yield done


def _room(ray: Any, cluster: RayCluster, parts: int) -> tuple[int, dict[str, float]]:
    """Return how many actors fit into the cluster, and the resources of each.

    An actor runs on one node, so the resources of each node count, not the total.

    Raises:
        UsageError: no node has the resources for one.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus = [int(node.get("CPU", 0)) for node in nodes]
    gpus = [int(node.get("GPU", 0)) if cluster.uses_gpus else 0 for node in nodes]
    wanted = max(1, min(cluster.cpus, max(cpus, default=0)))
    options: dict[str, float] = {"num_cpus": wanted}
    counts = [of_node // wanted for of_node in cpus]
    if any(gpus):
        options["num_gpus"] = 1
        counts = [min(count, of_node) for count, of_node in zip(counts, gpus, strict=True)]
    if not sum(counts):
        raise UsageError(
            f"--ray: no node of the cluster has room for an actor ({options}): its nodes have "
            f"{cpus} CPUs and {gpus} GPUs. Reduce --threads."
        )
    return min(sum(counts), parts), options


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Yield a connected Ray; an existing connection of the program is kept.

    Raises:
        UsageError: Ray is not installed, or the cluster is not reachable.
    """
    # Set before the import, which reads it: no usage statistics leave the machine.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        # Not a plain `import`, because its types are known only where it is installed.
        ray: Any = import_module("ray")
    except ImportError:
        raise UsageError(
            "--ray needs the package ray: pip install 'asdf-antispoofing[ray]', on all nodes."
        ) from None
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(
            f"--ray-address {address}: cannot connect to Ray: {error} Is it started (ray start), "
            "and is this the address of its head node?"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


class Scorer:
    """A detector as a stage of Ray Data for `map_batches`: a score per row.

    It reads the column `bytes` of each batch (contents of files, as from `read_binary_files`) or,
    without it, `path`; and returns the other columns with `score` (float64; NaN if there is none),
    `verdict` ('' without a threshold) and `error` ('' if there is a score).

    Scores are those of `Detector.score_many` on the batch; in batches of another size, the last
    digits differ.

    Args:
        network: Path or name of the network, as in `Detector`.
        whole: Whether scores are of whole recordings.
        options: Other arguments of `Detector`, such as device='cuda'.
    """

    def __init__(self, network: str, whole: bool = False, **options: Any) -> None:
        from asdf.scoring.detector import Detector

        self._detector = Detector(network, **options)
        self._whole = whole

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return a batch of Ray Data, columns of arrays (N,), with the results.

        Raises:
            UsageError: it has neither of the columns.
        """
        import numpy as np

        column = "bytes" if "bytes" in batch else "path"
        if column not in batch:
            raise UsageError(
                f"a batch needs a column `bytes` or `path`; it has {', '.join(batch) or 'none'}."
            )
        recordings = list(batch[column])
        scores_N = np.full(len(recordings), np.nan)
        verdicts = [""] * len(recordings)
        errors = [""] * len(recordings)
        for scored in self._detector.score_many(recordings, self._whole):
            if scored.score is not None:
                scores_N[scored.index] = scored.score
            verdicts[scored.index] = scored.verdict or ""
            errors[scored.index] = scored.error
        columns = {name: values for name, values in batch.items() if name != "bytes"}
        return {
            **columns,
            "score": scores_N,
            "verdict": np.array(verdicts, np.str_),
            "error": np.array(errors, np.str_),
        }
