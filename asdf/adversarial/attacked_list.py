"""Results of an attack on each trial of a list, saved so that a stopped study resumes.

Invariant: results count only if everything that they depend on is unchanged; saved results survive
any end of the process. The output is the same however often the study was stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from asdf.adversarial.attacking import Attacked, Attacker, Task, attack
from asdf.adversarial.conditions import Condition
from asdf.arrays import Floats
from asdf.distributed.worker_processes import WorkerProcesses
from asdf.errors import AsdfError
from asdf.robustness import copy_name
from asdf.runs.files import write_text
from asdf.runs.parts import Columns, Parts, join_columns
from asdf.runs.progress import track
from asdf.trials.how_scored import HowScored
from asdf.trials.score_file import write_scores
from asdf.trials.scored_files import remove_how_scored, write_how_scored
from asdf.trials.trial_list import TrialList

_COLUMNS = ("trials", "scores", "snrs_db", "problems")


@dataclass(frozen=True)
class Rows:
    """The results of each trial under a condition.

    Attributes:
        scores: Scores of the trials, (trials,); NaN without a score.
        snrs_db: Signal-to-noise ratios of the trials in dB, (trials,); infinite if nothing changed.
        problems: Reason why a trial has no score; ''.
    """

    scores: Floats
    snrs_db: Floats
    problems: Sequence[str]

    @classmethod
    def of(cls, results: Sequence[Attacked]) -> Rows:
        """Return the results of the trials, in their order."""
        scores = np.array([result.score for result in results], np.float64)
        snrs_db = np.array([result.snr_db for result in results], np.float64)
        return cls(scores, snrs_db, [result.problem for result in results])


@dataclass(frozen=True)
class AttackedList:
    """A list under a condition, with its files.

    Attributes:
        path: Path of its score file.
        keeps: Folder for attacked copies; None: they are not kept.
        work: Everything that the results depend on, as plain values.
        how: Parameters of scoring, which are saved with the scores.
    """

    trials: TrialList
    condition: Condition
    path: Path
    keeps: Path | None
    work: Mapping[str, Any]
    how: HowScored

    def attack(self, processes: WorkerProcesses[Attacker]) -> Rows:
        """Attack the recordings, unless this is done, and write the score file.

        Raises:
            AsdfError: no recording has a score, or an output cannot be written.
        """
        rows = self._read()
        if rows is None:
            rows = self._compute(processes)
            self._write(rows)
        return rows

    def _compute(self, processes: WorkerProcesses[Attacker]) -> Rows:
        what = self.condition.label
        parts = self._parts()
        known = dict(self._read_parts(parts.read(what)))
        tasks = []
        for index in range(len(self.trials)):
            if index not in known:
                tasks.append((index, self._task(index)))
        computed = processes.compute(attack, [task for _, task in tasks])
        try:
            with closing(track(computed, len(tasks), what, unit="recordings")) as tracked:
                for (index, _), result in zip(tasks, tracked, strict=True):
                    known[index] = result
                    values = (index, result.score, result.snr_db, result.problem)
                    columns = zip(_COLUMNS, values, strict=True)
                    parts.add({name: np.array([value]) for name, value in columns})
                    if parts.due:
                        parts.save()
        # Also after Ctrl-C or an error: every result has taken seconds.
        finally:
            parts.save()
        return Rows.of([known[index] for index in range(len(self.trials))])

    def _parts(self) -> Parts:
        return Parts(self.path.parent, f".{self.condition.name}.", lambda: dict(self.work))

    def _read_parts(self, saved: Sequence[Columns]) -> Iterator[tuple[int, Attacked]]:
        """Yield the results of earlier runs, except those with missing copies."""
        if not saved:
            return
        columns = join_columns(saved)
        rows = zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)
        for index, score, snr_db, problem in rows:
            target = self._target(index)
            if target is None or problem or target.exists():
                yield index, Attacked(score, snr_db, problem)

    def _target(self, index: int) -> Path | None:
        if self.keeps is None or self.condition.attack is None:
            return None
        return self.keeps / self.condition.name / copy_name(index, self.trials.ids[index])

    def _task(self, index: int) -> Task:
        label = int(self.trials.labels[index])
        source = str(self.trials.path(index))
        target = self._target(index)
        return Task(source, self.trials.ids[index], label, self.condition, target)

    @property
    def _record(self) -> Path:
        return self.path.with_suffix(".attack.json")

    @property
    def _digest(self) -> str:
        return hashlib.sha256(json.dumps(self.work, sort_keys=True).encode()).hexdigest()

    def _read(self) -> Rows | None:
        """Return the rows of a finished list; None if it is not finished."""
        results = []
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            if record["digest"] != self._digest or not self.path.is_file():
                return None
            for score, snr_db, problem in record["trials"]:
                # JSON has neither NaN nor infinity.
                known = np.nan if score is None else float(score)
                results.append(
                    Attacked(known, np.inf if snr_db is None else float(snr_db), problem)
                )
        # A record that is missing, damaged or of another form is made again.
        except (OSError, ValueError, KeyError, TypeError):
            return None
        for index, result in enumerate(results):
            target = self._target(index)
            if target is not None and not result.problem and not target.exists():
                return None
        return Rows.of(results)

    def _write(self, rows: Rows) -> None:
        known = np.flatnonzero(np.isfinite(rows.scores))
        if not len(known):
            raise AsdfError(f"{self.condition.label}: no recording has a score: {rows.problems[0]}")
        # The record goes first and comes back last: it must never vouch for half a score file.
        self._record.unlink(missing_ok=True)
        remove_how_scored(self.path)
        chosen = self.trials.select(known)
        write_scores(self.path, chosen.ids, chosen.labels.tolist(), rows.scores[known])
        write_how_scored(self.path, replace(self.how, trials=len(known)))
        trials = []
        for row in zip(rows.scores.tolist(), rows.snrs_db.tolist(), rows.problems, strict=True):
            finite = [value if np.isfinite(value) else None for value in row[:2]]
            trials.append([*finite, row[2]])
        write_text(self._record, json.dumps({"digest": self._digest, "trials": trials}) + "\n")
        # Only now: before the record, the parts are all that a stopped study has.
        self._parts().remove()
