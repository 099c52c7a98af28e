"""What a network may be asked besides bona fide or spoof: the port of all tasks.

Invariant: the core trains, scores and stores for tasks, and knows none of them. Those of ASDF and
those that `network.tasks` names are found by class path, and are asked the same questions.

A task adds a head to the network (`asdf.networks.heads.Head`), a term to the loss
(`asdf.training.terms.Term`), and says what becomes of the head's scores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.clip_frames import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.networks.extras import Extra
from asdf.networks.heads import Head, attach_head
from asdf.networks.output_check import compute_on_noise, left_unchanged
from asdf.runs.files import atomic_write
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.sections import Sections
from asdf.training.terms.base import Term
from asdf.trials.trial_list import TrialList

SETTING = "network.tasks"
OURS = ("asdf.tasks.tracing.task.SourceTracing", "asdf.tasks.localisation.task.Localisation")
"""Class paths of the tasks of ASDF, in the order of their terms."""


@dataclass(frozen=True)
class ScoredSet:
    """A set of trials that a network has scored.

    Attributes:
        network: Name of the network, as 'epoch.20'.
        corpus: Name of the set.
        score_file: Path of the score file, next to which a task writes its own.
        trials_file: Path of the labels and columns of the trials, which sets without columns lack.
    """

    network: str
    corpus: str
    score_file: Path
    trials_file: Path


class Task(ABC):
    """A task: the base class of the project's, and of your own.

    Name yours in `network.tasks = ('my_task.MyTask',)`, with `my_task.py` in the recipe's folder.
    docs/your_own.md has a complete one.

    Attributes:
        key: Key of the extra that the task's head gives.
        settings: All sections, as plain dataclasses.
        folder: Folder of the recipe, where modules of users lie; None: there is none.
        scores_one_class: Whether it scores lists of bona fide trials or of spoofs alone, too.
    """

    key: ClassVar[str]
    scores_one_class: ClassVar[bool] = False

    def __init__(self, settings: Sections, folder: Path | None = None) -> None:
        self.settings = settings
        self.folder = folder

    @property
    def is_requested(self) -> bool:
        """Whether the settings ask for the task; true of one that `network.tasks` names."""
        return True

    @abstractmethod
    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> Term | None:
        """Attach the head to `network`, and return the term of the loss that trains it.

        None where the settings do not ask for the task.

        Args:
            utterances: Training list.
            frames: Labels of the frames of training clips, for a network with a frame-level head.

        Raises:
            UsageError: the list lacks what the task needs.
            AsdfError: the head cannot be built.
        """

    def attach(self, network: nn.Module, head: Head) -> None:
        """Make `head` a part of `network`, on its device and in its number format.

        Raises:
            UsageError: the network has something else of that name.
        """
        parameter = next(network.parameters())
        # Parts of a divided network have one number format.
        form = torch.promote_types(parameter.dtype, torch.float32)
        attach_head(network, head.to(parameter.device, form))

    def embedding_dimension(self, network: nn.Module) -> int:
        """Return the numbers in an embedding of `network`, which computes noise for it.

        Raises:
            UsageError: it returns no embeddings (batch, numbers).
        """
        parameter = next(network.parameters())
        with left_unchanged(network):
            outputs = compute_on_noise(network, self.settings.network, parameter.device)
        embeddings = outputs.embeddings
        if isinstance(embeddings, Tensor) and embeddings.dim() == 2:
            return embeddings.shape[1]
        raise UsageError(
            f"the task {self.key!r} needs embeddings (batch, numbers), which "
            f"{self.settings.network.network_class} does not return. Leave the task out, or change "
            "what its forward returns first."
        )

    def check(self) -> None:  # noqa: B027 (most tasks need none)
        """Find what the settings name, before anything is measured. Raises as `build_term`."""

    def try_on_noise(self, network: nn.Module) -> None:  # noqa: B027 (as above)
        """Build the head for `network` and try it, in a dry run. Raises as `build_term`."""

    def scores_file(self, score_file: Path) -> Path:
        """Return the path of the task's scores, which lie next to a score file."""
        return score_file.with_name(f"{score_file.stem}.{self.key}.npz")

    def write(self, score_file: Path, utterances: TrialList, values: Any, extra: Extra) -> Any:
        """Write the values of a set next to its score file; return the scores.

        Args:
            values: Rows of the extra, (trials, numbers) float32; the `FrameTable` of one that
                follows time.
            extra: Extra of the network.
        """
        with atomic_write(self.scores_file(score_file), "wb") as file:
            np.savez(file, ids=np.array(utterances.ids), values=values)
        return values

    def read(self, score_file: Path) -> Any:
        """Return the scores that `write` has written; None where there are none."""
        path = self.scores_file(score_file)
        if not path.exists():
            return None
        with np.load(path) as content:
            return content["values"]

    def describe(self, scores: Any) -> str:
        """Return what the log says of the scores of a set, after its EER, such as '; known 3 %'."""
        return ""

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> str:
        """Write the results of networks on sets to the folder `results`; return them for the log.

        '' where there is nothing to say.

        Args:
            scored: Sets that are reported, by network.
            validated: Validation sets of the same networks, on which thresholds may be chosen.
        """
        return ""


def find_tasks(settings: Sections, folder: Path | None) -> list[Task]:
    """Return the tasks of ASDF, and those of `network.tasks`, for these settings.

    Raises:
        UsageError: a class does not exist, or is no task.
        AsdfError: its module or its constructor fails.
    """
    tasks = []
    for path in (*OURS, *settings.network.tasks):
        kind = find_class(path, folder, SETTING, Task)  # type: ignore[type-abstract]
        try:
            tasks.append(kind(settings, folder))
        except AsdfError:
            raise
        except Exception as error:
            reason = describe_error(error, __file__)
            raise AsdfError(f"{SETTING}: {path}(settings, folder) failed: {reason}.") from error
    return tasks


def requested_tasks(settings: Sections, folder: Path | None) -> list[Task]:
    """Return the tasks that the settings ask for. Raises as `find_tasks`."""
    return [task for task in find_tasks(settings, folder) if task.is_requested]


@dataclass(frozen=True)
class TaskScores:
    """The scores of all tasks of a network, next to score files.

    Attributes:
        tasks: Tasks that a network may have.
        extras: Extras of the network, by key.
    """

    tasks: Sequence[Task]
    extras: Mapping[str, Extra]

    def remove(self, score_file: Path) -> None:
        """Remove what belongs to a score file that is written anew."""
        for task in self.tasks:
            task.scores_file(score_file).unlink(missing_ok=True)

    def write(
        self, score_file: Path, utterances: TrialList, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write what the network gives for a set; return the scores by key.

        Args:
            values: Rows of the extras, by key.
        """
        scores = {}
        for task in self.tasks:
            key = task.key
            if key in values:
                scores[key] = task.write(score_file, utterances, values[key], self.extras[key])
        return scores

    def describe(self, scores: Mapping[str, Any]) -> str:
        """Return what the log says of the scores of a set."""
        known = [task for task in self.tasks if task.key in scores]
        return "".join(task.describe(scores[task.key]) for task in known)


def read_task_scores(tasks: Sequence[Task], score_file: Path) -> dict[str, Any]:
    """Return the scores of tasks that belong to a score file, by key."""
    read = {task.key: task.read(score_file) for task in tasks}
    return {key: scores for key, scores in read.items() if scores is not None}


def allow_one_class(tasks: Sequence[Task], scores: Mapping[str, Any]) -> bool:
    """Return whether a set with these scores of tasks may lack bona fide trials or spoofs."""
    return any(task.scores_one_class for task in tasks if task.key in scores)
