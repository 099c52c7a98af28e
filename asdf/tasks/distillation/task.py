"""Distillation: a small network learns a large one's outputs for the same clips.

    distillation.teacher = 'large.pt'

Invariant: the teacher never learns, draws no random numbers and is not part of the student, whose
file is an ordinary network file. It hears the same clips as the student, with the same augmentation
and cuts, in eval mode. A step therefore depends only on the clips and the weights, and a resumed
run equals an uninterrupted one.

Source: Hinton et al., "Distilling the Knowledge in a Neural Network", NIPS workshop 2014, for the
scores.

Shapes: B utterances, T samples, E numbers in an embedding of the teacher.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.data.clip_frames import ClipFrames
from asdf.errors import UsageError
from asdf.hub import find_published, parse_name
from asdf.interchange import read_detector
from asdf.networks.build import summary
from asdf.networks.interface import as_outputs
from asdf.runs.log import LOG
from asdf.shipped import is_shipped
from asdf.tasks.distillation.term import KEY, TeacherTerm
from asdf.training.task import Task
from asdf.trials.trial_list import TrialList


class Distillation(Task):
    """The task of learning from a teacher; it gives nothing besides the score."""

    key = KEY

    @property
    def is_requested(self) -> bool:
        return self.settings.distillation.teacher is not None

    def check(self) -> None:
        """Check that the teacher exists, unless it may have to be downloaded.

        Raises:
            UsageError: there is no such file or folder.
        """
        name = self._teacher_name()
        is_published = find_published(Path(name)) is not None or is_shipped(Path(name))
        if parse_name(name) is not None or is_published or Path(name).exists():
            return
        raise UsageError(
            f"distillation.teacher = {self.settings.distillation.teacher!r}: there is no file or "
            f"folder {name}. Name a network file, the folder of a run, a repository "
            "(hub:ORG/NAME) or a name that `python -m asdf detectors` lists."
        )

    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> TeacherTerm | None:
        """Let the teacher hear `network`'s training input; return the term of the loss."""
        if not self.is_requested:
            return None
        self.check()
        options = self.settings.distillation
        teacher, file = read_detector(self._teacher_name(), self.folder)
        theirs = file.to_sections(folder=self.folder).audio
        if theirs != self.settings.audio:
            raise UsageError(
                f"distillation.teacher = {options.teacher!r} hears recordings "
                f"{theirs.describe()}, but this training {self.settings.audio.describe()}; both "
                "get the same clips. Set audio.sample_rate and audio.channels to the teacher's, "
                "or name another teacher."
            )
        teacher.requires_grad_(False)
        teacher.to(next(network.parameters()).device)
        # By a hook, since a submodule would put the teacher into the student's file.
        network.register_forward_hook(_hearing(teacher, bool(options.embedding_weight)))
        LOG.info(
            "distillation: the teacher is %s, %s with %s parameters; this network has %s",
            options.teacher,
            type(teacher).__name__,
            f"{summary(teacher).total:,}",
            f"{summary(network).total:,}",
        )
        return TeacherTerm(options.score_weight, options.embedding_weight, options.temperature)

    def _teacher_name(self) -> str:
        """Return the teacher's name; a path in the recipe's folder takes precedence."""
        name = str(self.settings.distillation.teacher)
        in_recipe = (self.folder or Path()) / name
        return str(in_recipe) if in_recipe.exists() else name


def _hearing(teacher: nn.Module, with_embeddings: bool) -> Any:
    """Return the hook that adds the outputs of `teacher` to those of the student in training.

    It is a function so that copying the student, as for averaged weights, does not copy the
    teacher.
    """

    def add_targets(student: nn.Module, inputs: Any, outputs: Any) -> Any:
        # Only the loss needs the teacher, and scoring should cost no more than the student.
        if not student.training:
            return None
        return as_outputs(outputs).with_extra(KEY, _targets(teacher, inputs[0], with_embeddings))

    return add_targets


def _targets(teacher: nn.Module, waveforms_BT: Tensor, with_embeddings: bool) -> Tensor:
    """Return the teacher's logit differences, and its embeddings if requested, (B, 1 + E).

    Raises:
        UsageError: its embeddings are not (batch, numbers).
    """
    # Code that sets the whole network to training mode may have changed the teacher's mode.
    teacher.eval()
    with torch.no_grad():
        outputs = as_outputs(teacher(waveforms_BT))
    # Differences of bfloat16 logits, which a teacher may return under autocast, are coarse.
    logits_B2 = outputs.logits_B2.float()
    targets = [logits_B2[:, 1:] - logits_B2[:, :1]]
    if with_embeddings:
        embeddings = outputs.embeddings
        if not isinstance(embeddings, Tensor) or embeddings.dim() != 2:
            raise UsageError(
                "distillation.embedding_weight: the teacher's embeddings are not (batch, "
                "numbers). Set it to 0 to learn only its scores."
            )
        targets.append(embeddings.float())
    return torch.cat(targets, dim=1)
