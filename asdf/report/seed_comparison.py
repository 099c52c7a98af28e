"""Comparison of two configurations over their seeds: differences, and tests against chance.

Invariant: both are measured on the same draws of the trials, and a difference comes with its tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.errors import AsdfError, UsageError
from asdf.metrics.results import evaluate
from asdf.report.choosing import distinct_names
from asdf.report.comparison import Difference, chosen_network, different_settings
from asdf.tasks.studies.grouping import NO_EFFECT, SEED, group_runs, recorded_seed
from asdf.tasks.studies.over_seeds import SeedDifference, Spread, compare_seeds, spreads
from asdf.tasks.studies.seed_results import Member, draw_members
from asdf.tasks.studies.seed_tables import describe_mean, difference_sentence
from asdf.text import and_more
from asdf.trials.how_scored import SetRole, role_notes
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import how_scored
from asdf.trials.trial_list import TrialList

_SHOWN = 6


@dataclass(frozen=True)
class Side:
    """The runs of a configuration, their seeds, and the network of each; None without scores."""

    name: str
    runs: tuple[RunFolder, ...]
    seeds: tuple[str, ...]
    networks: tuple[str | None, ...]

    def sets(self) -> list[str]:
        """Return the sets that all of its networks were scored on."""
        shared: list[str] | None = None
        for run, network in zip(self.runs, self.networks, strict=True):
            known = run.score_files().get(network or "", {})
            shared = list(known) if shared is None else [name for name in shared if name in known]
        return shared or []

    def members(self, set_name: str) -> list[Member]:
        """Return its networks on a set."""
        members = []
        for run, seed, network in zip(self.runs, self.seeds, self.networks, strict=True):
            scores = run.scores(network or "", set_name)
            members.append(_member(run, seed, set_name, scores))
        return members

    def roles(self, set_name: str) -> list[tuple[str, SetRole | None]]:
        """Return the role of a set for each of its networks, by run and set."""
        roles = []
        for run, network in zip(self.runs, self.networks, strict=True):
            scored = how_scored(run.score_file(network or "", set_name))
            roles.append((f"{run.name} on {set_name}", scored.role))
        return roles


def _member(run: RunFolder, seed: str, set_name: str, scores: Scores) -> Member:
    def read() -> tuple[Scores, TrialList | None]:
        return scores, run.trials(set_name)

    return Member(run.name, seed, evaluate(scores), read)


@dataclass(frozen=True)
class SetDifference:
    """Two configurations on a set, and their difference second - first.

    Attributes:
        remarks: Reasons why the results of a run are not a test.
    """

    set: str
    first: Spread
    second: Spread
    first_min_dcf: Spread
    second_min_dcf: Spread
    tested: SeedDifference
    by_speakers: bool
    sentence: str
    remarks: list[str]


@dataclass(frozen=True)
class SeedComparison:
    """Two configurations, the settings that differ between them, and their results.

    Attributes:
        refused: Reason for each set that could not be tested.
    """

    sides: tuple[Side, Side]
    settings: list[Difference]
    results: list[SetDifference]
    refused: list[str]


def two_sides(runs: Sequence[RunFolder], networks: tuple[str | None, str | None]) -> list[Side]:
    """Return the two configurations of the runs, starting with that of the first run.

    Raises:
        UsageError: there are not two; the message lists the configurations.
        AsdfError: a run has no scores of a requested network.
    """
    names = distinct_names(runs)
    members: list[tuple[str, tuple[int, ...], tuple[str, ...]]] = []
    for group in group_runs(runs, names):
        members.append((group.name, group.runs, group.seeds))
    grouped = {index for _, indices, _ in members for index in indices}
    for index, run in enumerate(runs):
        if index not in grouped:
            members.append((names[index], (index,), (recorded_seed(run) or "",)))
    if len(members) != 2:
        described = [f"{name} ({len(indices)})" for name, indices, _ in members]
        raise UsageError(
            f"compare needs two configurations, but these {len(runs)} runs are of {len(members)}: "
            f"{and_more(described, _SHOWN)}. Runs are of one configuration if they recorded the "
            "same settings but for recipe.seed, each seed once."
        )
    members.sort(key=lambda member: min(member[1]))
    sides = []
    for (name, indices, seeds), requested in zip(members, networks, strict=True):
        of_side = tuple(runs[index] for index in indices)
        chosen = tuple(chosen_network(run, requested) for run in of_side)
        sides.append(Side(name, of_side, seeds, chosen))
    return sides


def compare_configurations(
    runs: Sequence[RunFolder],
    networks: tuple[str | None, str | None] = (None, None),
    replicates: int = 1000,
) -> SeedComparison:
    """Compare the two configurations of the runs on every set that all of them scored.

    Raises:
        UsageError, AsdfError: as `two_sides`.
    """
    first, second = two_sides(runs, networks)
    settings = []
    for difference in different_settings(first.runs[0], second.runs[0]):
        # Settings that vary within a configuration are not a difference between the two.
        if difference.name not in NO_EFFECT and difference.name != SEED:
            settings.append(difference)
    results: list[SetDifference] = []
    refused: list[str] = []
    others = second.sets()
    for set_name in first.sets():
        if set_name not in others:
            continue
        try:
            results.append(_compare_set(first, second, set_name, replicates))
        except AsdfError as error:
            refused.append(f"{set_name}: {error}")
    return SeedComparison((first, second), settings, results, refused)


def _compare_set(first: Side, second: Side, set_name: str, replicates: int) -> SetDifference:
    a = draw_members(first.members(set_name), replicates)
    b = draw_members(second.members(set_name), replicates)
    eer_a, cost_a = spreads(a)
    eer_b, cost_b = spreads(b)
    tested = compare_seeds(a, b)
    lower, higher = (first.name, eer_a), (second.name, eer_b)
    ordered = tested
    if tested.difference.eer.value < 0:
        lower, higher = higher, lower
        ordered = tested.reverse()
    sentence = difference_sentence(ordered, describe_mean(*lower), describe_mean(*higher))
    return SetDifference(
        set_name,
        eer_a,
        eer_b,
        cost_a,
        cost_b,
        tested,
        a.by_speakers and b.by_speakers,
        sentence,
        role_notes([*first.roles(set_name), *second.roles(set_name)]),
    )
