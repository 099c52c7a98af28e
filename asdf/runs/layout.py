"""The system folder of a run: the names of its networks, its paths, and its one owner.

'epoch.3' is the network after three epochs, 'epoch.4.step.200' the network after step 200, inside
the fourth epoch. 'average' is the mean of the best networks, and 'resume' a checkpoint inside an
epoch that is never scored.

Invariant: no other module spells the name of a file or folder of a run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from asdf.errors import AsdfError
from asdf.runs.files import remove_unfinished

_SUFFIX = ".pt"
# Not \d, which also matches digits of other scripts.
_NUMBERED = re.compile(r"epoch\.([0-9]+)(?:\.step\.([0-9]+))?")
_SHOWN = 8


class TrainingPosition(NamedTuple):
    """The progress of training: whole epochs, and the step inside the next one, or 0."""

    epochs: int
    step: int


@dataclass(frozen=True)
class NetworkName:
    """The name of a network, as in its folder of scores and in tables of results."""

    text: str

    @classmethod
    def parse(cls, name: str) -> NetworkName:
        """Return the name of 'epoch.3' or of the file 'epoch.3.pt'."""
        return cls(name.removesuffix(_SUFFIX))

    @classmethod
    def after_epoch(cls, epochs: int) -> NetworkName:
        return cls(f"epoch.{epochs}")

    @classmethod
    def inside_epoch(cls, epoch: int, step: int) -> NetworkName:
        """Return the name after `step` steps of the run, inside epoch number `epoch`."""
        return cls(f"epoch.{epoch}.step.{step}")

    def __str__(self) -> str:
        return self.text

    @property
    def file(self) -> str:
        """The name of the network's file in the folder of networks."""
        return self.text + _SUFFIX

    @property
    def position(self) -> TrainingPosition | None:
        """The training position of the network; None for 'average' and other names."""
        numbers = _NUMBERED.fullmatch(self.text)
        if numbers is None:
            return None
        epoch, step = numbers.groups()
        if step is None:
            return TrainingPosition(int(epoch), 0)
        # A step inside the fourth epoch follows three whole epochs.
        return TrainingPosition(int(epoch) - 1, int(step))


RESUME = NetworkName("resume")
AVERAGE = NetworkName("average")


def in_order(names: list[NetworkName]) -> list[NetworkName]:
    """Return the names in the order of training, then 'average' and others alphabetically."""
    # Sorted by number: as text, epoch.10 comes before epoch.2.
    last = TrainingPosition(sys.maxsize, 0)
    return sorted(names, key=lambda name: (name.position or last, name.text))


def list_networks(folder: Path) -> list[NetworkName]:
    """Return the networks in `folder` with a training position, oldest first."""
    names = [NetworkName.parse(path.name) for path in folder.glob(f"epoch.*{_SUFFIX}")]
    return in_order([name for name in names if name.position is not None])


def describe_networks(folder: Path) -> str:
    """Return a sentence for messages that lists the newest networks in `folder`."""
    files = [name.file for name in list_networks(folder)]
    if not files:
        return "There are no networks: run stage 1 first."
    return f"There are {', '.join(files[-_SHOWN:])}."


_SCORES = "scores"
# The folder of results may also lie outside a run, since `write_results` takes any folder.
RESULTS_JSON = "results.json"
RESULTS_TEXT = "results.txt"
# Another run may be writing to a shared folder. It touches its unfinished files every few seconds,
# so a file of this age does not belong to a live run.
_ABANDONED_AFTER_S = 3600.0


class _Below:
    """A path below the system folder, as an attribute of `Layout`."""

    def __init__(self, *parts: str) -> None:
        self._path = Path(*parts)

    def __get__(self, layout: Layout, kind: type[Layout]) -> Path:
        return layout.system / self._path


@dataclass(frozen=True)
class Layout:
    """The paths below the system folder of a run (`paths.output_folder/paths.system_folder`)."""

    system: Path

    owner = _Below("owner.lock")
    """The lock of the run that writes to the folder now."""
    log = _Below("log.txt")
    settings = _Below("settings.py")
    """The settings of the last start."""
    environment = _Below("environment.json")
    """Records of all starts: versions, machine, devices, git state of the code."""
    sets = _Below("sets.json")
    """Overlap of the sets with the training and validation sets."""
    metrics = _Below("metrics.jsonl")
    """Records of training steps and evaluations, one per line."""
    code = _Below("code")
    """The user's own code at the latest start."""
    starts = _Below("starts")
    """Settings and code of earlier starts, if they differ from those of later ones."""

    def start_settings(self, number: int) -> Path:
        """Return the path of the settings of a start, counted from 1."""
        return self.starts / str(number) / self.settings.name

    def start_code(self, number: int) -> Path:
        """Return the path of the user's own code of a start, counted from 1."""
        return self.starts / str(number) / self.code.name

    profile = _Below("profile")
    tensorboard = _Below("tensorboard")
    tracking = _Below("tracking.json")
    """Identifiers of the run in its trackers."""
    networks = _Below("networks")
    evaluations = _Below("networks", "evaluations.json")
    """EERs of the validation sets, for choosing a network without opening any."""
    scores = _Below(_SCORES)
    trials = _Below("trials")
    results = _Below("results")
    results_json = _Below("results", RESULTS_JSON)
    generalisation_json = _Below("results", "generalisation.json")
    """Results on sets of several corpora, including corpora outside the training data."""
    generalisation_text = _Below("results", "generalisation.txt")
    report = _Below("results", "report.html")
    sources_json = _Below("results", "sources.json")
    """Results of source tracing."""
    sources_text = _Below("results", "sources.txt")
    localisation_json = _Below("results", "localisation.json")
    """Results of locating spoofed segments by frame scores."""
    launch_log = _Below("launch.log")
    """Output of a launched run, over all of its starts."""
    launch_state = _Below("launch.json")
    launch_stop = _Below("launch.stop")
    """A launched run stops when this file exists."""

    def network_file(self, name: NetworkName) -> Path:
        return self.networks / name.file

    def score_file(self, name: NetworkName, corpus: str) -> Path:
        return self.scores / str(name) / f"{file_stem(corpus)}.txt"

    def frames_file(self, name: NetworkName, corpus: str) -> Path:
        """Return the path of the frame scores, next to the file of trial scores."""
        return self.score_file(name, corpus).with_suffix(".frames.npz")

    def score_files(self) -> list[Path]:
        """Return the existing score files of all networks, sorted by path."""
        return sorted(self.scores.glob("*/*.txt"))

    def trials_file(self, corpus: str) -> Path:
        """Return the path of the trials' labels and columns, for results by attack or the like."""
        return self.trials / f"{file_stem(corpus)}.tsv"

    def folders(self) -> tuple[Path, ...]:
        """Return the folders that a run creates."""
        return (self.networks, self.scores, self.trials, self.results, self.code, self.starts)


def file_stem(corpus: str) -> str:
    """Return a corpus name as part of a file name; names of folders and hubs contain '/'."""
    # '%' first: otherwise the escapes themselves would be escaped.
    return corpus.replace("%", "%25").replace("/", "%2F") if "/" in corpus else corpus


def corpus_of_file(path: Path) -> str:
    """Return the corpus of a score file, from its name."""
    return path.stem.replace("%2F", "/").replace("%25", "%") if "%2F" in path.stem else path.stem


def layout_of_network(path: Path) -> Layout:
    """Return the layout of the run that wrote the network file `path`, if a run did."""
    return Layout(path.parent.parent)


def layout_of_score_file(path: Path) -> Layout | None:
    """Return the layout of the run that wrote a score file, or None if it belongs to no run."""
    parents = path.parents
    if len(parents) < 3 or parents[1].name != _SCORES:
        return None
    return Layout(parents[2])


def network_of_score_file(path: Path) -> NetworkName | None:
    """Return the network that a score file belongs to, or None if it belongs to no run."""
    if layout_of_score_file(path) is None:
        return None
    return NetworkName(path.parent.name)


def runs_inside(folder: Path) -> list[Path]:
    """Return the system folders directly inside `folder`, sorted by name."""
    return sorted(path.parent for path in folder.glob(f"*/{Layout(folder).settings.name}"))


def remove_leftovers(layout: Layout, shared: Path) -> None:
    """Remove the unfinished files of killed runs from a system folder, and old ones from a folder
    that runs share.

    Only the owner of the system folder may call this.
    """
    below = (*layout.scores.glob("*/"), *layout.starts.glob("*/"))
    for folder in (layout.system, *layout.folders(), *below):
        remove_unfinished(folder)
    remove_unfinished(shared, older_than_s=_ABANDONED_AFTER_S)


@contextmanager
def owner_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder` while the block runs; it always ends with its process.

    Raises:
        AsdfError: another process holds it, or, with a cause, the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    path = Layout(folder).owner
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        lock.acquire(timeout=0)
    except Timeout:
        raise AsdfError(
            f"another run is using {folder}. Wait for it, stop it, or give this run another "
            "paths.system_folder."
        ) from None
    except OSError as error:
        raise AsdfError(
            f"cannot write in the system folder {folder}: {error.strerror or error}. Choose "
            "another paths.output_folder, free some space, or fix the folder's permissions."
        ) from error
    try:
        yield
    finally:
        # While it is locked; filelock takes no lock of a file that is gone.
        path.unlink(missing_ok=True)
        lock.release()
