"""Sets whose published numbers cover only a part of them, known by their subsets or their size.

Invariant: without the subsets of the trials only a number of trials that is exactly a known one
leads to a warning; a set of any other size is the user's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from asdf.facts import PUBLISHED
from asdf.metrics.checks import Finding

SUBSET = "eval"
TITLES = {"asvspoof21-la": "ASVspoof 2021 LA", "asvspoof21-df": "ASVspoof 2021 DF"}
"""Corpora whose keys hold trials of other subsets as well."""


def another_subset(trials: int, subsets: Sequence[str] = ()) -> list[Finding]:
    """Warn if the trials are not the subset that published results use.

    It is judged by subset labels or, without them, by the number of trials.
    """
    if subsets:
        counts = Counter(subsets)
        # Trials of one subset alone are the published ones, or were chosen by the subset's name.
        if SUBSET not in counts or len(counts) == 1:
            return []
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
        what = f"{trials:,} trials of all subsets ({parts})"
        return [_warning(what, "its protocol", counts[SUBSET])]
    for corpus, title in TITLES.items():
        sizes = PUBLISHED[corpus]
        for subset, size in sizes.items():
            if size.trials == trials and subset != SUBSET:
                part = "all subsets" if subset == "all" else subset
                what = f"{trials:,} trials, as many as {title} has in {part}"
                return [_warning(what, title, sizes[SUBSET].trials)]
    return []


def _warning(what: str, whose: str, published: int) -> Finding:
    return Finding(
        "warning",
        f"these are {what}; published numbers are those of subset {SUBSET} of {whose} "
        f"({published:,} trials), and may lie far from these. --protocol P --subset {SUBSET} takes "
        "those.",
    )
