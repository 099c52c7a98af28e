"""Source tracing as a task, enabled by `source.column`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from asdf.data.clip_frames import ClipFrames
from asdf.networks.extras import Extra
from asdf.runs.files import write_text
from asdf.tables.plain_json import as_json
from asdf.tasks.tracing.heads import Traced
from asdf.tasks.tracing.source_measures import describe_traced, evaluate_sources
from asdf.tasks.tracing.source_scores import (
    SourceScores,
    read_source_scores,
    sources_file,
    trace,
    write_source_scores,
)
from asdf.tasks.tracing.source_tables import confusion_svg, sources_record, sources_text
from asdf.tasks.tracing.term import SourceTerm, build_head, build_source_term, find_head_class
from asdf.training.task import ScoredSet, Task
from asdf.trials.trial_list import TrialList

# Number of classes of a head that is tested before the training list is known.
_CLASSES = 3
# Replicates for the intervals that a run reports; `evaluate` draws more.
_REPLICATES = 200


class SourceTracing(Task):
    """The classes of a column of the trial list, learnt next to detection."""

    key = "sources"
    # Lists for source tracing, such as MLAAD's, may have spoofs alone.
    scores_one_class = True

    @property
    def is_requested(self) -> bool:
        return self.settings.source.column is not None

    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> SourceTerm | None:
        if not self.is_requested:
            return None
        return build_source_term(network, utterances, self.settings, self.folder, frames)

    def check(self) -> None:
        find_head_class(self.settings, self.folder)

    def try_on_noise(self, network: nn.Module) -> None:
        # Without names, only the training list determines the number of classes.
        classes = len(self.settings.source.classes or ()) or _CLASSES
        build_head(network, classes, self.settings, self.folder)

    def scores_file(self, score_file: Path) -> Path:
        return sources_file(score_file)

    def write(
        self, score_file: Path, utterances: TrialList, values: np.ndarray, extra: Extra
    ) -> SourceScores:
        assert isinstance(extra, Traced)  # of the head that this task attaches
        traced = trace(utterances, extra.classes, values)
        write_source_scores(sources_file(score_file), traced)
        return traced

    def read(self, score_file: Path) -> SourceScores | None:
        path = sources_file(score_file)
        return read_source_scores(path) if path.exists() else None

    def describe(self, scores: SourceScores) -> str:
        return describe_traced(scores)

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> str:
        """Measure source tracing; write text, JSON and plots.

        Sets without a trial of a known class are skipped.
        """
        records: list[dict[str, Any]] = []
        texts = []
        for entry in scored:
            traced = self.read(entry.score_file)
            if traced is None or not set(traced.truths) & set(traced.classes):
                continue
            result = evaluate_sources(traced, replicates=_REPLICATES)
            title = f"{entry.network} on {entry.corpus}"
            records.append(sources_record(entry.network, entry.corpus, result))
            texts.append(sources_text(title, result))
            write_text(results / f"sources - {title}.svg", confusion_svg(title, result))
        if not records:
            return ""
        text = "\n\n".join(texts)
        write_text(results / "sources.txt", text + "\n")
        write_text(results / "sources.json", as_json(records, indent=1))
        return f"sources\n{text}"
