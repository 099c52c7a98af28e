"""Sets whose published numbers are those of a part of them, recognised by their subsets or their size.

Invariant: without the subsets of the trials only a count that is exactly a known one is spoken of; a set of any other
size is the user's own.

Source of the sizes: the keys of ASVspoof 2021 (`CM/trial_metadata.txt` of LA and DF).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from asdf.evaluation.checks import Finding

PUBLISHED = "eval"
SIZES = {
    "ASVspoof 2021 LA": {"eval": 148_176, "progress": 16_464, "hidden": 16_926},
    "ASVspoof 2021 DF": {"eval": 533_928, "progress": 59_325, "hidden": 18_576},
}


def another_subset(trials: int, subsets: Sequence[str] = ()) -> list[Finding]:
    """A warning where so many trials, or their subsets where they are known, are not those of published numbers."""
    if subsets:
        counts = Counter(subsets)
        if PUBLISHED not in counts or len(counts) == 1:
            return []
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
        return [
            _warning(
                f"{trials:,} trials of all subsets ({parts})", "its protocol", counts[PUBLISHED]
            )
        ]
    for name, sizes in SIZES.items():
        for subset, size in {**sizes, "all subsets": sum(sizes.values())}.items():
            if size == trials and subset != PUBLISHED:
                return [
                    _warning(
                        f"{trials:,} trials, as many as {name} has in {subset}",
                        name,
                        sizes[PUBLISHED],
                    )
                ]
    return []


def _warning(what: str, whose: str, published: int) -> Finding:
    return Finding(
        "warning",
        f"these are {what}; published numbers are those of subset {PUBLISHED} of {whose} ({published:,} trials), and "
        f"may lie far from these. --protocol P --subset {PUBLISHED} takes those.",
    )
