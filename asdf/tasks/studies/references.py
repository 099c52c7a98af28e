"""Published results, shown next to measured ones for the same set, trials and scored length.

The results are in references.json, each set with its names in recipes and corpora.

Invariant: a published result is shown for a set only if the set has its known name and exactly the
published numbers of trials, and as much of each recording was scored. Results on another subset are
not comparable (on all trials of ASVspoof 2021 LA, EERs are several times those on its subset eval),
nor are results with other lengths.

The scored lengths are those of the authors' published evaluation code: AASIST, SSL_Anti-spoofing
and SLS use 64,600 samples, Conformer-TCM and XLSR-Mamba 66,800 on ASVspoof 2021 and 64,600 on
In-the-Wild, Nes2Net-X 64,600 on ASVspoof 2021 and whole recordings on In-the-Wild. The lengths
behind results that later papers report for other systems are unknown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from asdf.facts import PUBLISHED as PUBLISHED_TRIALS
from asdf.facts import Published
from asdf.trials.how_scored import ScoredLength, parse_scored_length


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
