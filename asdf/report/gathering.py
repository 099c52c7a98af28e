"""What a report is about: the runs, the networks chosen of each, and their summaries on every set that was scored.

Invariant: every number comes from `summarise` or straight from the run's files; the order is by EER, of equals that in
which the runs were named, so the same folders give the same report. What cannot be measured is a finding, not left out
silently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve
from asdf.metrics.leading import leaders, speakers_of
from asdf.metrics.summary import (
    Summary,
    different_lengths,
    different_trials,
    mixed_precisions,
    summarise,
)
from asdf.report.choosing import Choice, chosen, distinct_names
from asdf.report.curves import (
    DET_TICKS,
    Histogram,
    ThinnedCurve,
    histogram,
    thinned_det,
)
from asdf.report.names import labels_of
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import how_scored
from asdf.trials.trial_list import TrialList

_MOST_VALUES = 64
_MOST_CURVES = 800
_LABEL = 28
_CONDITION_REPLICATES = 200


@dataclass(frozen=True)
class Measurement:
    """One network on one set.

    Attributes:
        run: the index of its run.
        system: the name that it goes by in the report, the same on every set.
        network: 'epoch.20'.
        summary: without its scores, of which there may be more than fit into memory.
        misses: miss rates (fractions) at the false alarm rates of `DET_TICKS`, over all spoofs.
        curves: DET curves: '' is that of all spoofs, the others those of the attacks.
    """

    run: int
    system: str
    network: str
    summary: Summary
    misses: list[float]
    curves: dict[str, ThinnedCurve]
    histogram: Histogram


@dataclass(frozen=True)
class Gathered:
    """All that a report shows.

    Attributes:
        names: one for each run, no two alike.
        findings: (system and set, or either, level, message) of what looks wrong.
        leading: set -> metric -> the system that is significantly the best by it (see `leaders`).
    """

    runs: list[RunFolder]
    names: list[str]
    measurements: list[Measurement]
    findings: list[tuple[str, str, str]]
    leading: dict[str, dict[str, str]]

    @property
    def sets(self) -> list[str]:
        """The sets that something was measured on, in the order of the first run."""
        return list(dict.fromkeys(one.summary.set for one in self.measurements))

    @cached_property
    def systems(self) -> list[str]:
        """All systems: by their EER on the last set, the lowest first; those without it behind, as they came."""
        ranked = [one.system for one in self.on(self.sets[-1])] if self.sets else []
        return list(dict.fromkeys([*ranked, *(one.system for one in self.measurements)]))

    @cached_property
    def labels(self) -> dict[str, str]:
        """System -> a name that is short enough for a table or a legend, no two alike."""
        systems = self.systems
        return dict(zip(systems, labels_of(systems, _LABEL), strict=True)) if systems else {}

    def on(self, name: str) -> list[Measurement]:
        """The measurements on the set `name`, the lowest EER first."""
        measured = [one for one in self.measurements if one.summary.set == name]
        return sorted(measured, key=lambda one: one.summary.result.eer)


def gather(
    runs: Sequence[RunFolder],
    choice: Choice = "reported",
    *,
    replicates: int = 1000,
    told: Callable[[str], None] = lambda what: None,
) -> Gathered:
    """Measure the chosen networks of `runs`; `told` hears of each before it is measured.

    A score file that is malformed or lacks a class is a finding, and the rest is measured.

    Raises:
        AsdfError: a run's file cannot be read.
    """
    names = distinct_names(runs)
    wanted = [chosen(run, choice) for run in runs]
    measurements: list[Measurement] = []
    findings: list[tuple[str, str, str]] = []
    curves = 0
    for number, (run, name, pairs) in enumerate(zip(runs, names, wanted, strict=True)):
        several = len({network for network, _ in pairs}) > 1
        if not pairs:
            findings.append(
                (name, "note", "nothing has been scored yet, so there is no result of this run.")
            )
        for network, corpus in pairs:
            system = f"{name} {network}" if several else name
            told(f"{system} on {corpus}")
            try:
                scores, trials = run.scores(network, corpus), run.trials(corpus)
                by = shown_columns(trials)
                summary = summarise(
                    system,
                    corpus,
                    scores,
                    trials,
                    by=by,
                    replicates=replicates,
                    condition_replicates=min(replicates, _CONDITION_REPLICATES),
                    scored=how_scored(run.score_file(network, corpus)),
                )
            except AsdfError as error:  # it begins with the system's name
                findings.append(
                    (f"{system} on {corpus}", "error", str(error).removeprefix(f"{system}: "))
                )
                continue
            findings += [
                (f"{system} on {corpus}", one.level, one.message) for one in summary.findings
            ]
            spoofs = summary.spoofs_by_attack()
            spoofs = spoofs if len(spoofs) <= _MOST_VALUES else {}
            curves += 1 + len(spoofs)
            measurements.append(
                _measurement(
                    number, system, network, summary, spoofs if curves <= _MOST_CURVES else {}
                )
            )
    if curves > _MOST_CURVES:
        few = (
            f"only the first {_MOST_CURVES} curves are drawn by attack, to keep the page small; "
            "all are in the tables."
        )
        findings.append(("DET curves and histograms", "note", few))
    gathered = Gathered(list(runs), names, measurements, findings, {})
    for corpus in gathered.sets:
        summaries = [one.summary for one in gathered.on(corpus)]
        different = different_trials(summaries) + different_lengths(summaries)
        different += mixed_precisions(summaries)
        findings += [(corpus, one.level, one.message) for one in different]
        # Systems that were scored from different lengths have no common best one.
        drawn = 0 if different_lengths(summaries) else replicates
        gathered.leading[corpus] = _leading(gathered, corpus, drawn)
    return gathered


def _leading(gathered: Gathered, name: str, replicates: int) -> dict[str, str]:
    measured = gathered.on(name)

    def scores_of(index: int) -> tuple[Scores, Sequence[str] | None]:
        one = measured[index]
        run = gathered.runs[one.run]
        scores = run.scores(one.network, name)
        return scores, speakers_of(scores, run.trials(name))

    found = leaders([one.summary.result for one in measured], scores_of, replicates)
    return {metric: measured[index].system for metric, index in found.items()}


def shown_columns(trials: TrialList | None) -> list[str]:
    """The attack first, then the other columns that have few enough values to be a table."""
    columns = {} if trials is None else trials.columns
    few = [
        name
        for name, values in columns.items()
        if len(set(values)) <= _MOST_VALUES and name != "speaker"
    ]
    return sorted(
        {"attack", *few}, key=lambda name: (name != "attack", few.index(name) if name in few else 0)
    )


def _measurement(
    run: int,
    system: str,
    network: str,
    summary: Summary,
    attacks: dict[str, npt.NDArray[np.float64]],
) -> Measurement:
    pooled = summary.curve
    curves = {"": thinned_det(pooled)}
    for name, spoof in attacks.items():
        curves[name] = thinned_det(DetCurve.of(pooled.bona_fide, spoof))
    return Measurement(
        run=run,
        system=system,
        network=network,
        summary=summary.without_trials(),
        misses=pooled.miss_at([tick / 100 for tick in DET_TICKS]),
        curves=curves,
        histogram=histogram(pooled.bona_fide, pooled.spoof, attacks, summary.result.eer_threshold),
    )
