"""Metrics of source tracing for choosing networks: `network.validation_metric`."""

from __future__ import annotations

from asdf.metrics.validation import TaskMetric
from asdf.tasks.tracing.source_measures import evaluate_sources
from asdf.tasks.tracing.source_scores import SourceScores


class SourceAccuracy(TaskMetric):
    """The proportion of trials of known sources that are called what they are."""

    task = "sources"
    advice = "set source.column"
    lower_is_better = False

    def of_scores(self, scores: SourceScores) -> float:
        return evaluate_sources(scores).closed["accuracy"]


class SourceMacroF1(SourceAccuracy):
    """The macro-F1 of trials of known sources."""

    def of_scores(self, scores: SourceScores) -> float:
        return evaluate_sources(scores).closed["macro_f1"]
