"""Two runs side by side: what differs in their settings, in what they ran on, and in their results.

Invariant: a difference of results comes with its test on the very trials that both scored; folders that a run was
merely told to write to are shown with the other settings, since a wrong one is a reason too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Intervals, paired_test
from asdf.metrics.leading import speakers_of
from asdf.metrics.results import Result, evaluate
from asdf.report.choosing import best_network
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.run_folder import KeptSetting, RunFolder
from asdf.trials.scored_files import how_scored

_ABSENT = KeptSetting("(no such setting)", "")


@dataclass(frozen=True)
class Difference:
    """A name with its value in the first and in the second run, and where each value came from, if it is told."""

    name: str
    first: str
    second: str
    first_source: str = ""
    second_source: str = ""


@dataclass(frozen=True)
class ResultDifference:
    """The results of both runs on a set.

    Attributes:
        difference: second - first, with intervals and p-values.
        first_scored, second_scored: what is known of how each was scored.
    """

    set: str
    first: Result
    second: Result
    difference: Intervals
    by_speakers: bool
    first_scored: HowScored = NOT_KNOWN
    second_scored: HowScored = NOT_KNOWN

    @property
    def of_one_length(self) -> bool:
        """Whether nothing says that the two were scored from different lengths of the recordings."""
        one, other = self.first_scored.length, self.second_scored.length
        return one is None or other is None or one.agrees_with(other)


def different_settings(first: RunFolder, second: RunFolder) -> list[Difference]:
    """Settings that differ, in the order of the files."""
    one, other = first.settings(), second.settings()
    found = []
    for name in dict.fromkeys((*one, *other)):
        a, b = one.get(name, _ABSENT), other.get(name, _ABSENT)
        if a.text != b.text:
            found.append(Difference(name, a.text, b.text, a.source, b.source))
    return found


def different_environments(first: RunFolder, second: RunFolder) -> list[Difference]:
    """What differs between the last starts of both: code, versions, machine, devices, memory by more than a tenth."""
    one, other = (_flat((run.environments() or [{}])[-1]) for run in (first, second))
    names = [name for name in dict.fromkeys((*one, *other)) if name not in ("started", "ended")]
    pairs = [(name, one.get(name, "-"), other.get(name, "-")) for name in names]
    return [Difference(*pair) for pair in pairs if not _same(*pair)]


def chosen_network(run: RunFolder, asked: str | None = None) -> str | None:
    """The network whose scores stand for the run: the one `asked` for, or the first of its last report.

    Of a run without a report it is the best on its validation set; None where nothing was scored.

    Raises:
        AsdfError: the run has no scores of the network asked for.
    """
    there = run.score_files()
    reported = [network for network, _ in run.reported() if network in there]
    name = asked or (reported[0] if reported else best_network(run.training(), list(there)))
    if name is not None and name not in there:
        known = ", ".join(there) or "no network yet"
        raise AsdfError(f"{run.path} holds no scores of {name}. There are scores of {known}.")
    return name


def different_results(
    first: RunFolder, second: RunFolder, networks: tuple[str, str], replicates: int = 1000
) -> tuple[list[ResultDifference], list[str]]:
    """Results of the sets that both networks scored, tested on the same trials, by speakers where they are known.

    Returns:
        The results, and why a set has none, one message a set: it was not scored on the same trials, has one class
        only, or a file of it cannot be read.
    """
    files = [
        run.score_files()[network] for run, network in zip((first, second), networks, strict=True)
    ]
    found, refused = [], []
    for name in (name for name in files[0] if name in files[1]):
        try:
            scores = [
                run.scores(network, name)
                for run, network in zip((first, second), networks, strict=True)
            ]
            speakers = speakers_of(scores[0], first.trials(name) or second.trials(name))
            results = evaluate(scores[0]), evaluate(scores[1])
            tested = paired_test(scores[0], scores[1], speakers=speakers, replicates=replicates)
        except AsdfError as error:
            refused.append(f"{name}: {error}")
        else:
            scored = [how_scored(paths[name]) for paths in files]
            found.append(ResultDifference(name, *results, tested, speakers is not None, *scored))
    return found, refused


def _same(name: str, first: str, second: str) -> bool:
    """Whether two values of a record are the same; two runs of one command never take the very same memory."""
    if name.startswith("peak_memory_mb."):
        try:
            low, high = sorted((float(first), float(second)))
            return high <= 1.1 * low
        except ValueError:
            pass
    return first == second


def _flat(record: Mapping[str, Any], above: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in record.items():
        full = f"{above}{name}"
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{full}."))
        else:
            flat[full] = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return flat
