"""Generalisation to other corpora: error rates per set, averaged, pooled and published ones.

Invariant: a configuration has an average and a pooled result only over sets on which all of its
networks were scored. Sets of the training corpus are marked and never included in an average over
other corpora.

The average weights every set equally, each at its own threshold. The pooled EER uses all trials in
one DET curve, with one threshold for all sets, so it also shows whether scores are comparable
between corpora. The pooled trials are drawn like those of a single set.

Published results are in references.json, each set with its names in recipes and corpora. One is
shown for a set only if the set has its known name and exactly the published numbers of trials, and
as much of each recording was scored. Results on another subset are not comparable (on all trials of
ASVspoof 2021 LA, EERs are several times those on its subset eval), nor are results with other
lengths. The scored lengths are those of the authors' published evaluation code: AASIST,
SSL_Anti-spoofing and SLS use 64,600 samples, Conformer-TCM and XLSR-Mamba 66,800 on ASVspoof 2021
and 64,600 on In-the-Wild, Nes2Net-X 64,600 on ASVspoof 2021 and whole recordings on In-the-Wild.
The lengths behind results that later papers report for other systems are unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from asdf.errors import AsdfError
from asdf.facts import PUBLISHED as PUBLISHED_TRIALS
from asdf.facts import Published
from asdf.tables.renderers import PageTable, as_json, as_latex, as_lines, as_page
from asdf.tables.table import Column, Columns, Table, Value, counts, each, labels_of, rate, texts
from asdf.tasks.studies.configurations import (
    Configuration,
    Measured,
    find_configurations,
    recorded_value,
)
from asdf.tasks.studies.over_seeds import (
    SeedDraws,
    Spread,
    average_of_sets,
    compare_seeds,
    draw_seeds,
    spreads,
)
from asdf.tasks.studies.seed_results import SEEDS_LEAD, OverSeeds, is_worse
from asdf.trials.how_scored import ScoredLength, described, parse_scored_length, role_words
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import join


@dataclass(frozen=True)
class Reference:
    """A published result.

    Attributes:
        eer: Equal error rate, in %.
        min_tdcf: Minimum of the normalised t-DCF; None if it was not published.
        note: Remark on it.
        scored: Part of each recording that was scored; None if unknown.
    """

    system: str
    eer: float
    min_tdcf: float | None
    paper: str
    note: str = ""
    scored: ScoredLength | None = None


@dataclass(frozen=True)
class KnownSet:
    """A public evaluation set: its numbers of trials, and the results published on it."""

    title: str
    trials: Published
    results: tuple[Reference, ...]


def _read_sets() -> dict[str, KnownSet]:
    facts = json.loads(Path(__file__).with_name("references.json").read_text(encoding="utf-8"))
    sets: dict[str, KnownSet] = {}
    for entry in facts["sets"]:
        results = []
        for result in entry["results"]:
            length = result.pop("scored")
            scored = None if length is None else parse_scored_length(length)
            paper = facts["papers"][result.pop("paper")]
            results.append(Reference(paper=paper, scored=scored, **result))
        trials = PUBLISHED_TRIALS[entry["corpus"]][entry["subset"]]
        sets |= dict.fromkeys(entry["names"], KnownSet(entry["title"], trials, tuple(results)))
    return sets


KNOWN_SETS = _read_sets()
"""Known sets, by their names in recipes ('NAME-eval') and corpora ('NAME:eval')."""


def comparable(name: str, bona_fide: int, spoof: int) -> KnownSet | None:
    """Return the known set with this name and these numbers of trials; else None."""
    known = KNOWN_SETS.get(name)
    if known is None or (known.trials.bona_fide, known.trials.spoof) != (bona_fide, spoof):
        return None
    return known


def of_the_same_length(known: KnownSet, scored: ScoredLength | None) -> list[Reference]:
    """Return the published results for which as much of each recording was scored.

    None matches an unknown length.
    """
    if scored is None:
        return []
    return [one for one in known.results if one.scored and one.scored.agrees_with(scored)]


_TRAINING_SETS = "recipe.training_sets"
# Suffixes of the names of a corpus's sets.
_SUBSET = re.compile(
    r"[-_:](train|training|dev|development|validation|val|test|testing|eval|evaluation|progress)$"
)
_SHOWN = 3
_LABEL = 24
_DAGGER = r"$^\dagger$"


@dataclass(frozen=True)
class EerRow:
    """A set, or several: its numbers of trials, and the EER of each configuration by name.

    Attributes:
        sets: Sets that an average or a pooled result is of; () for a single set.
        is_own: Whether the set is of a corpus used in training.
        published: Lowest published EERs with the same protocol, in words; '' if none is known.
        remark: Remark such as ', chose the network', for any of the systems; '' for an unused set.
        leader: Configuration that is significantly the best over several sets; '' if none is.
    """

    name: str
    bona_fide: int
    spoof: int
    eers: Mapping[str, Spread]
    sets: tuple[str, ...] = ()
    is_own: bool = False
    published: str = ""
    remark: str = ""
    leader: str = ""

    @property
    def corpus(self) -> str:
        """Whether the corpus of a set was used in training, and how else the set was used."""
        if self.sets:
            return ""
        return ("trained on" if self.is_own else "other") + self.remark


@dataclass(frozen=True)
class Generalisation:
    """The performance of configurations on sets of corpora not used in training.

    Attributes:
        rows: Rows of single sets, followed by those over several sets.
    """

    trained_on: tuple[str, ...]
    configurations: tuple[str, ...]
    rows: list[EerRow]


def corpus_of(name: str) -> str:
    """Return 'demo' for 'demo-eval' and 'asvspoof19' for 'asvspoof19:eval'."""
    return _SUBSET.sub("", name)


def measure_generalisation(
    runs: Sequence[RunFolder],
    names: Sequence[str],
    measurements: Sequence[Measured],
    over: OverSeeds,
    replicates: int,
) -> Generalisation | None:
    """Return the results over several sets; None if all are of corpora used in training.

    Args:
        names: Names of the runs.
        over: Results over seeds that are already measured.
    """
    set_names = list(dict.fromkeys(each(measurements, "summary.set")))
    trained: dict[str, None] = {}
    for run in runs:
        value = recorded_value(run, _TRAINING_SETS)
        trained |= dict.fromkeys(map(str, value if isinstance(value, tuple) else ()))
    own_corpora = set(map(corpus_of, trained))
    # 'train+dev' is a set of two lists.
    own = [name for name in set_names if own_corpora.intersection(map(corpus_of, name.split("+")))]
    others = [name for name in set_names if name not in own]
    if not trained or not others or len(set_names) < 2:
        return None
    configurations = over.configurations or find_configurations(runs, names, measurements)
    table = _Table(runs, measurements, configurations, over, replicates)
    rows = [table.set_row(name, name in own) for name in set_names]
    totals = table.total_rows(set_names, "")
    if own and len(others) > 1:
        totals = [*table.total_rows(others, " of other corpora"), *totals]
    return Generalisation(tuple(trained), tuple(each(configurations, "name")), rows + totals)


class _Table:
    """The measurements by configuration and set, and their bootstrap draws."""

    def __init__(
        self,
        runs: Sequence[RunFolder],
        measurements: Sequence[Measured],
        configurations: Sequence[Configuration],
        over: OverSeeds,
        replicates: int,
    ) -> None:
        self._runs = runs
        self._configurations = configurations
        self._by_key = {(m.system, m.summary.set): m for m in measurements}
        # Draws shared between configurations take longer and are needed only for comparisons.
        is_compared = len(configurations) > 1
        self._draw = partial(draw_seeds, replicates=replicates, is_compared=is_compared)
        # Draws that exist already are used again.
        drawn = [(result.name, result.set, result.draws) for result in over.results()]
        self._draws = {(name, of): draws for name, of, draws in drawn if draws is not None}

    def set_row(self, set_name: str, is_own: bool) -> EerRow:
        eers = {}
        for known in self._configurations:
            draws = self._draws_on(known, set_name)
            if draws is not None:
                eers[known.name] = spreads(draws)[0]
        measured = [m for (_, name), m in self._by_key.items() if name == set_name]
        result = measured[0].summary.result
        published = _published_words(set_name, measured)
        remark = "".join(dict.fromkeys(role_words(m.summary.scored.role) for m in measured))
        sizes = (result.bona_fide, result.spoof)
        return EerRow(set_name, *sizes, eers, (), is_own, published, remark)

    def total_rows(self, set_names: Sequence[str], of_which: str) -> list[EerRow]:
        """Return the average and the pooled row over the sets."""
        averages = {}
        pools = {}
        for known in self._configurations:
            draws = [self._draws_on(known, name) for name in set_names]
            of_sets = [part for part in draws if part is not None]
            # With other seeds on some sets, an average would mix different networks.
            have_same_seeds = len({part.seeds for part in of_sets}) == 1
            if len(of_sets) == len(set_names) and have_same_seeds:
                averages[known.name] = average_of_sets(of_sets)
                members = [self._members_on(known, name) for name in set_names]
                by_seed = zip(*(scores for _, scores in members), strict=True)
                pooled = [pool(dict(zip(set_names, parts, strict=True))) for parts in by_seed]
                # The first set suffices, since all have the same seeds here.
                pools[known.name] = self._draw(members[0][0], pooled)
        # The trials of a set are those of the first system on it.
        by_set = {m.summary.set: m.summary.result for m in reversed(self._by_key.values())}
        sizes = [by_set[name] for name in set_names]
        bona_fide = sum(result.bona_fide for result in sizes)
        spoof = sum(result.spoof for result in sizes)
        rows = []
        for kind, by_name in (("Average", averages), ("Pooled", pools)):
            # No configuration was scored on all sets.
            if not by_name:
                continue
            eers = {name: spreads(draws)[0] for name, draws in by_name.items()}
            leader = ""
            # A leader over the second is assumed to lead all others.
            first, *others = sorted(by_name, key=lambda name: eers[name].mean)
            # Without replicates there is nothing to test.
            with suppress(AsdfError):
                tested = others and compare_seeds(by_name[first], by_name[others[0]])
                leader = first if tested and is_worse(tested) else ""
            title = f"{kind}, {len(set_names)} sets{of_which}"
            rows.append(EerRow(title, bona_fide, spoof, eers, tuple(set_names), leader=leader))
        return rows

    def _draws_on(self, known: Configuration, set_name: str) -> SeedDraws | None:
        """Return the draws of a configuration's networks on a set; None if there are none."""
        key = (known.name, set_name)
        if key not in self._draws:
            seeds, scores = self._members_on(known, set_name)
            if not scores:
                return None
            trials = self._runs[known.run].trials(set_name)
            # Networks that were scored on different trials have no interval; a finding states it.
            with suppress(AsdfError):
                self._draws[key] = self._draw(seeds, scores, trials)
        return self._draws.get(key)

    def _members_on(self, known: Configuration, set_name: str) -> tuple[list[str], list[Scores]]:
        """Return the seeds of a configuration on a set, and the scores of each."""
        seeds, scores = [], []
        for system, seed in zip(known.systems, known.seeds, strict=True):
            measured = self._by_key.get((system, set_name))
            if measured is not None:
                seeds.append(seed)
                scores.append(self._runs[measured.run].scores(measured.network, set_name))
        return seeds, scores


def pool(by_set: Mapping[str, Scores]) -> Scores:
    """Return the scores of several sets as one set; a trial's id becomes `set:id`."""
    joined = join([Scores(s.ids, s.labels, s.scores, name=name) for name, s in by_set.items()])
    values = np.concatenate([scores.scores for scores in by_set.values()])
    return Scores(list(joined.ids), joined.labels, values)


def published_alike(set_name: str, measured: Sequence[Measured]) -> list[Reference] | None:
    """Return the published results on a known set that are comparable with what was measured.

    As much of each recording was scored. The result is None if anything was measured on other
    trials, since readers could not know which number is comparable.
    """
    known = KNOWN_SETS[set_name]
    alike: set[Reference] = set()
    for summary in each(measured, "summary"):
        if comparable(set_name, summary.result.bona_fide, summary.result.spoof) is None:
            return None
        alike.update(of_the_same_length(known, summary.scored.length))
    return [reference for reference in known.results if reference in alike]


def _published_words(set_name: str, measured: Sequence[Measured]) -> str:
    """Return the lowest published EERs with the same trials and scored length, and that length."""
    if set_name not in KNOWN_SETS:
        return ""
    known = KNOWN_SETS[set_name]
    alike = published_alike(set_name, measured)
    if alike is None:
        return f"over other trials ({known.trials.trials:,})"
    if not alike:
        return "scored from other lengths"
    lowest = sorted(alike, key=lambda reference: reference.eer)[:_SHOWN]
    words = [f"{reference.system} {reference.eer:.2f}" for reference in lowest]
    lengths = dict.fromkeys(described(reference.scored) for reference in lowest)
    return f"{'; '.join(words)} ({known.title}; {', '.join(lengths)})"


def generalisation_table(known: Generalisation) -> PageTable:
    """Return a row per set, then averages and pooled results; a column per configuration."""
    columns = _trial_columns(known, ("Corpus", "Bona fide", "Spoof"))
    labels = labels_of(known.configurations, _LABEL)
    for name, label in zip(known.configurations, labels, strict=True):
        columns.append((rate(name, label, whole_name=name), _values(known, name)))
    if any(row.published for row in known.rows):
        published = [row.published or None for row in known.rows]
        columns.append(Column("published", "Published EER %").with_texts(published))
    table = Table(each(known.rows, "name"), columns, "Set")
    return as_page(table, f"EER in %, trained on {', '.join(known.trained_on)}", "generalisation")


def generalisation_text(known: Generalisation) -> str:
    """Return the table as aligned text; it ends with a line break."""
    columns = _trial_columns(known, ("corpus", "bona fide", "spoof"))
    for name in known.configurations:
        values = _values(known, name)
        columns.append((rate(name, digits=4, states_unit=True, plus_minus="+-"), values))
        finer = rate("95 %", digits=3)
        bounds = [value.intervals.get("trials") for value in values]
        shown = ["-" if known is None else finer.format_bounds(known, " .. ") for known in bounds]
        columns.append(texts("95 %", shown))
    lines = as_lines(Table(each(known.rows, "name"), columns, "set"))
    published = [row for row in known.rows if row.published]
    lines += [f"published on {row.name}: {row.published}" for row in published]
    return "".join(f"{line}\n" for line in lines)


def _trial_columns(known: Generalisation, headings: tuple[str, str, str]) -> Columns:
    """Return the corpus of each set, and its numbers of trials."""
    corpus, bona_fide, spoof = headings
    return [
        texts(corpus, each(known.rows, "corpus"), is_left=True),
        counts(bona_fide, each(known.rows, "bona_fide")),
        counts(spoof, each(known.rows, "spoof")),
    ]


def _values(known: Generalisation, name: str) -> list[Value]:
    """Return the EERs of a configuration by row; averages and pooled EERs are tested."""
    rows = known.rows
    return [Value.of_spread(row.eers.get(name), is_best=row.leader == name) for row in rows]


def generalisation_json(known: Generalisation) -> str:
    """Return the table with all digits, EERs as fractions."""
    record: dict[str, Any] = {"trained_on": list(known.trained_on), "sets": [], "totals": []}
    for row in known.rows:
        eers = {}
        for name, spread in row.eers.items():
            interval = spread.interval
            eers[name] = {
                "mean": spread.mean,
                "deviation": spread.deviation,
                "values": list(spread.values),
                "interval_95": None if interval is None else [interval.low, interval.high],
            }
        entry = {"name": row.name, "bona_fide": row.bona_fide, "spoof": row.spoof, "eer": eers}
        if row.sets:
            record["totals"].append({**entry, "sets": list(row.sets)})
        else:
            remark = row.remark.removeprefix(", ")
            record["sets"].append({**entry, "is_own": row.is_own, "remark": remark})
    return as_json(record)


def generalisation_to_latex(
    known: Generalisation, over: OverSeeds, leading: Mapping[str, str]
) -> str:
    """Return a table of configurations by set, with averages and pooled results.

    Args:
        leading: System that is significantly the best by EER, by set.
    """
    columns: Columns = []
    for row in known.rows:
        leader = row.leader
        if not row.sets:
            leader = leading.get(row.name, "")
            if results := over.by_set.get(row.name):
                # Where seeds were compared, the test over seeds counts, not that of one network.
                leader = results[0].name if over.is_leading(results[0]) else ""
        eers = [(row.eers.get(name), name == leader) for name in known.configurations]
        values = [Value.of_spread(eer, is_best=is_best) for eer, is_best in eers]
        columns.append((rate(row.name, paper_mark=_DAGGER if row.is_own else ""), values))
    notes = [f"trained on {', '.join(known.trained_on)}; EER in per cent"]
    if any(row.is_own for row in known.rows):
        notes.append("sets with a dagger are of the corpus that was trained on")
    remarked = [row for row in known.rows if row.remark]
    notes += [f"{row.name}: {row.remark.removeprefix(', ')}" for row in remarked]
    if any(value.is_best for _, values in columns for value in values):
        notes.append(f"bold: {SEEDS_LEAD}")
    labels = labels_of(known.configurations, _LABEL)
    table = Table(known.configurations, columns, "System", notes, labels)
    return f"% generalisation\n{as_latex(table)}"
