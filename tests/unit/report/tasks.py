"""Results of source tracing and localisation as stage 3 leaves them, with values by hand."""

import json
from pathlib import Path

import numpy as np

from asdf.evaluation import write_scores
from asdf.segments import Segment
from asdf.segments.scored_frames import frame_table, write_frame_table
from asdf.tasks.localisation.located_measures import (
    LocatedRecording,
    localisation,
    localisation_intervals,
    located_record,
)
from asdf.tasks.tracing.source_measures import evaluate_sources, sources_record
from asdf.tasks.tracing.source_scores import SourceScores, write_source_scores

PROBABILITIES = [
    [0.90, 0.05, 0.05],  # right
    [0.20, 0.60, 0.20],  # called B
    [0.15, 0.80, 0.05],  # right
    [0.25, 0.50, 0.25],  # right
    [0.70, 0.10, 0.20],  # called A
    [0.55, 0.25, 0.20],
    [0.10, 0.85, 0.05],
]
OPEN = ("A", "A", "B", "B", "C", "X", "Y")
"""Accuracy 3/5, macro-F1 (1/2 + 4/5 + 0) / 3, EER of the two unknown ones 0.45, OSCR 3/10."""
CLOSED = OPEN[:5]


def traced(truths: tuple[str, ...], classes: tuple[str, ...] = ("A", "B", "C")) -> SourceScores:
    logits_NK = np.log(np.array(PROBABILITIES[: len(truths)]))
    ids = [f"{number}.wav" for number in range(len(truths))]
    return SourceScores.of_logits(ids, "attack", classes, list(truths), logits_NK)


def write_traced(folder: Path, sets: dict[str, SourceScores], network: str = "epoch.2") -> None:
    """Write the sources of a network on sets, and their results, next to a run's others."""
    path = folder / "results" / "sources.json"
    records = json.loads(path.read_text()) if path.exists() else []
    for name, scores in sets.items():
        write_source_scores(folder / "scores" / network / f"{name}.sources.tsv", scores)
        records.append(sources_record(network, name, evaluate_sources(scores, replicates=20)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records))


def make_run_of_spoofs(folder: Path, network: str = "epoch.2") -> Path:
    """Write a run whose only set is of spoofs: no EER, and nothing in results.json."""
    scores = traced(OPEN)
    path = folder / "scores" / network / "spoofs.txt"
    write_scores(path, scores.ids, [0] * len(scores), np.arange(len(scores)))
    write_traced(folder, {"spoofs": scores}, network)
    (folder / "results" / "results.json").write_text("[]\n")
    (folder / "settings.py").write_text("loss.detection_weight = 0.0  # command line\n")
    return folder


def located_recordings() -> list[LocatedRecording]:
    """Frames of 20 ms; 0.03 to 0.07 s are spoofed of every other one, 0.02 to 0.06 s score low."""
    scores = np.array([1.0, -1, -1, 0, 2])
    recordings = []
    for index in range(8):
        parts = (Segment(0.03, 0.07),) if index % 2 else ()
        shown = scores if index % 2 else np.ones(5)
        recordings.append(LocatedRecording(shown, 0.02, parts, 0.1))
    return recordings


def write_located(folder, set_name, network="epoch.2", with_intervals=True):
    """Write the frame scores of a network on a set, and their result; return its record."""
    recordings = located_recordings()
    ids = [f"{index}.wav" for index in range(len(recordings))]
    scores = [recording.scores.astype(np.float32) for recording in recordings]
    table = frame_table(ids, scores, 0.02, [0.1] * len(ids))
    write_frame_table(folder / "scores" / network / f"{set_name}.frames.npz", table)
    result = localisation(recordings, threshold=0.0)
    intervals = None
    if with_intervals:
        measured = localisation(recordings, threshold=0.0)
        intervals = localisation_intervals(recordings, measured, replicates=20)
    record = located_record(network, set_name, "dev", result, intervals, "recordings")
    (folder / "results" / "localisation.json").write_text(json.dumps([record]))
    return record
