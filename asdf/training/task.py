"""Tasks that a network may have besides telling bona fide from spoof: their base class.

Invariant: the core trains, scores and stores for tasks without knowing any of them. ASDF's tasks
and those in `network.tasks` are found by class path, and used through the same methods.

A task adds a head to the network (`asdf.networks.attached.Head`) and a term to the loss
(`asdf.training.losses.loss.Term`), and defines how the head's scores are written and reported.
"""

from __future__ import annotations

import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.datasets import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import Head, attach_head
from asdf.networks.extras import EMBEDDING, Extra
from asdf.networks.output_check import compute_on_noise, left_unchanged
from asdf.runs.files import atomic_write
from asdf.runs.seeds import derived_seed
from asdf.settings.class_files import is_ours
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import Sections
from asdf.training.losses.loss import Term
from asdf.trials.trial_list import TrialList

SETTING = "network.tasks"
OURS = ("asdf.tasks.tracing.task.SourceTracing", "asdf.tasks.localisation.task.Localisation")
"""Class paths of ASDF's tasks, in the order of their terms."""


@dataclass(frozen=True)
class ScoredSet:
    """A set of trials that a network has scored.

    Attributes:
        network: Name of the network, as 'epoch.20'.
        corpus: Name of the set.
        score_file: Path of the score file, next to which a task writes its own.
        trials_file: Path of the labels and columns of the trials; missing for sets without columns.
    """

    network: str
    corpus: str
    score_file: Path
    trials_file: Path


class Task(ABC):
    """Base class of tasks, the project's and your own.

    Name yours in `network.tasks = ('my_task.MyTask',)`, with `my_task.py` in the recipe's folder.
    docs/your_own.md has a complete one.

    Attributes:
        key: Key of the extra that the task's head computes; a Python name such as 'speakers'.
        settings: Sections of all settings, as plain dataclasses.
        folder: Folder of the recipe with users' modules; None if there is none.
        scores_one_class: Whether it can also score lists of only bona fide trials or only spoofs.

    Examples:
        >>> import torch
        >>> from asdf.networks import Outputs
        >>> from asdf.settings import Sections
        >>> from asdf.tasks import Head, Task
        >>> class LengthHead(Head):
        ...     key = "length"
        ...
        ...     def values(self, outputs):
        ...         return outputs.embeddings.norm(dim=1)
        ...
        ...     def describe(self):
        ...         return {}
        ...
        ...     @classmethod
        ...     def restore(cls, entry, settings):
        ...         return cls()
        >>> class Length(Task):
        ...     key = "length"
        ...
        ...     def build_term(self, network, utterances, frames):
        ...         self.attach(network, LengthHead())
        >>> class Pair(torch.nn.Linear):
        ...     def forward(self, embeddings_BE):
        ...         return Outputs(embeddings_BE, super().forward(embeddings_BE))
        >>> network = Pair(2, 2)
        >>> Length(Sections()).build_term(network, None, None)
        >>> network(torch.tensor([[3.0, 4.0]])).extras["length"].tolist()
        [5.0]
    """

    key: ClassVar[str]
    scores_one_class: ClassVar[bool] = False

    def __init__(self, settings: Sections, folder: Path | None = None) -> None:
        self.settings = settings
        self.folder = folder

    @property
    def is_requested(self) -> bool:
        """Whether the settings request the task; true for those in `network.tasks`."""
        return True

    @abstractmethod
    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> Term | None:
        """Attach the head to `network`, and return the loss term that trains it.

        The result is None if the settings do not request the task.

        Args:
            utterances: Training list.
            frames: Labels of the frames of training clips, for a network with a frame-level head.

        Raises:
            UsageError: the list lacks data that the task needs.
            AsdfError: the head cannot be built.
        """

    def attach(self, network: nn.Module, head: Head) -> None:
        """Attach `head` to `network`, on its device and in its number format.

        Raises:
            UsageError: the network already has another attribute of this name, or the head's key is
                not the task's.
        """
        if head.key != self.key:
            raise UsageError(
                f"{type(head).__qualname__}.key is {head.key!r}, and {type(self).__qualname__}.key "
                f"{self.key!r}. Use the same key for a task and its head."
            )
        parameter = next(network.parameters())
        form = torch.promote_types(parameter.dtype, torch.float32)
        attach_head(network, head.to(parameter.device, form))

    def embedding_dimension(self, network: nn.Module) -> int:
        """Return the number of values in an embedding of `network`, by computing noise.

        Raises:
            UsageError: it does not return embeddings (batch, numbers).
        """
        parameter = next(network.parameters())
        with left_unchanged(network):
            outputs = compute_on_noise(network, self.settings.network, parameter.device)
        embeddings = outputs.embeddings
        if isinstance(embeddings, Tensor) and embeddings.dim() == 2:
            return embeddings.shape[1]
        raise UsageError(
            f"the task {self.key!r} needs embeddings (batch, numbers), which "
            f"{self.settings.network.network_class} does not return first. Leave the task out."
        )

    def check(self) -> None:  # noqa: B027 (most tasks need none)
        """Check the classes in the settings before any measuring. Raises as `build_term`."""

    def try_on_noise(self, network: nn.Module) -> None:  # noqa: B027 (as above)
        """Build the head for `network` and test it, in a dry run. Raises as `build_term`."""

    def scores_file(self, score_file: Path) -> Path:
        """Return the path of the task's scores, next to a score file."""
        return score_file.with_name(f"{score_file.stem}.{self.key}.npz")

    def write(self, score_file: Path, utterances: TrialList, values: Any, extra: Extra) -> Any:
        """Write the values of a set next to its score file; return the scores.

        Args:
            values: Rows of the extra, (trials, numbers) float32, or a `FrameTable` for an extra
                that follows time.
            extra: Extra of the network.
        """
        with atomic_write(self.scores_file(score_file), "wb") as file:
            np.savez(file, ids=np.array(utterances.ids), values=values)
        return values

    def read(self, score_file: Path) -> Any:
        """Return the scores that `write` has written; None if there are none.

        Raises:
            AsdfError: the file cannot be read.
        """
        path = self.scores_file(score_file)
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as content:
                return content["values"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise AsdfError(
                f"cannot read the scores {path} ({type(error).__name__}: {error}): the file is "
                "damaged or from another program. Run stage 2 again (recipe.start_stage=2)."
            ) from None

    def describe(self, scores: Any) -> str:
        """Return a remark on a set's scores for the log, after its EER, such as '; known 3 %'."""
        return ""

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> str:
        """Write the results of networks on sets to the folder `results`; return them for the log.

        The result is '' if there is nothing to report.

        Args:
            scored: Sets to report, with their networks.
            validated: Validation sets of the same networks, on which thresholds may be chosen.
        """
        return ""


class Tasks:
    """The tasks of a run, called together.

    A failure in a user's task gives one message with the names of its class and method.
    """

    def __init__(self, members: Sequence[Task]) -> None:
        """Store the tasks, in the order of their terms."""
        self._members = members

    def __iter__(self) -> Iterator[Task]:
        return iter(self._members)

    def requested(self) -> Tasks:
        """Return the tasks that the settings request."""
        return Tasks([task for task in self if task.is_requested])

    @property
    def keys(self) -> list[str]:
        """The keys of their extras."""
        return [task.key for task in self]

    def check(self) -> None:
        """Check the classes in the settings. Raises as `Task.check`."""
        for task in self:
            _ask(task, "check")

    def try_on_noise(self, network: nn.Module) -> None:
        """Build their heads for `network` and test them. Raises as `Task.try_on_noise`."""
        for task in self:
            _ask(task, "try_on_noise", network)

    def build_terms(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None, seed: int
    ) -> tuple[Term, ...]:
        """Attach their heads, with weights determined by `seed`; return the loss terms.

        Args: as in `Task.build_term`. Raises as it does.
        """
        terms = []
        for task in self:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derived_seed(seed, f"head of {task.key}"))
                terms.append(_ask(task, "build_term", network, utterances, frames))
        return tuple(term for term in terms if term is not None)

    def remove(self, score_file: Path) -> None:
        """Remove the tasks' files that belong to a score file that is rewritten."""
        for task in self:
            task.scores_file(score_file).unlink(missing_ok=True)

    def write(
        self,
        score_file: Path,
        utterances: TrialList,
        values: Mapping[str, Any],
        extras: Mapping[str, Extra],
    ) -> dict[str, Any]:
        """Write a network's extras for a set; return the scores by key.

        Args:
            values: Rows of the extras, by key.
            extras: Extras of the network, by key.
        """
        return {
            task.key: _ask(
                task, "write", score_file, utterances, values[task.key], extras[task.key]
            )
            for task in self
            if task.key in values
        }

    def read(self, score_file: Path) -> dict[str, Any]:
        """Return the scores that belong to a score file, by key. Raises as `Task.read`."""
        read = {task.key: _ask(task, "read", score_file) for task in self}
        return {key: scores for key, scores in read.items() if scores is not None}

    def describe(self, scores: Mapping[str, Any]) -> str:
        """Return a remark on a set's scores for the log."""
        scored = [task for task in self if task.key in scores]
        return "".join(_ask(task, "describe", scores[task.key]) for task in scored)

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> list[str]:
        """Write the results of networks on sets; return them for the log. Args: as in a task."""
        texts = [_ask(task, "report", scored, validated, results) for task in self]
        return list(filter(None, texts))

    def allow_one_class(self, scores: Mapping[str, Any]) -> bool:
        """Return whether a set with these scores may lack bona fide trials or spoofs."""
        return any(task.scores_one_class for task in self if task.key in scores)


def find_tasks(settings: Sections, folder: Path | None) -> Tasks:
    """Return ASDF's tasks and those in `network.tasks`, for these settings.

    Raises:
        UsageError: a class does not exist, is not a task, or has the key of another task.
        AsdfError: its module or its constructor fails.
    """
    tasks: list[Task] = []
    taken = {EMBEDDING: "the network's embeddings"}
    for path in (*OURS, *settings.network.tasks):
        kind = find_class(path, folder, SETTING, Task)  # type: ignore[type-abstract]
        with UserErrors(f"{SETTING}: {path}(settings, folder) failed"):
            task = kind(settings, folder)
            key = task.key
        if not isinstance(key, str) or not key.isidentifier() or key in taken:
            other = f", the key of {taken[key]}" if isinstance(key, str) and key in taken else ""
            raise UsageError(
                f"{SETTING}: {path}.key is {key!r}{other}. Give it a name of its own, such as "
                "'speakers'."
            )
        taken[key] = path
        tasks.append(task)
    return Tasks(tasks)


def _ask(task: Task, method: str, *arguments: Any) -> Any:
    """Call `method` of a task; errors of the project's own tasks keep their traceback."""
    kind = type(task)
    path = f"{kind.__module__}.{kind.__qualname__}"
    failed = f"{SETTING}: {path}.{method} failed"
    with nullcontext() if is_ours(path) else UserErrors(failed):
        return getattr(task, method)(*arguments)
