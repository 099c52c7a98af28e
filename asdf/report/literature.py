"""Published results on a set, shown below the measured ones.

Invariant: a published number is shown only if all measurements are over the same trials, and next
to one for which as much of each recording was scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.report.gathering import Measurement
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.table import Column, Columns, Table, Value, each, texts
from asdf.tasks.studies.references import (
    KNOWN_SETS,
    KnownSet,
    Reference,
    comparable,
    of_the_same_length,
)
from asdf.trials.how_scored import described


@dataclass(frozen=True)
class Literature:
    """Published results on a set.

    Attributes:
        table: Table of the results; None if none is comparable.
        others: Sentence about results that are left out; '' if there are none.
        why_not: Reason why there is no table.
    """

    table: PageTable | None = None
    others: str = ""
    why_not: str = ""


def published_results(set_name: str, measured: Sequence[Measurement]) -> Literature | None:
    """Return the published results on a set with the same protocol, or why they are not shown.

    The result is None for a set that is not public.
    """
    if set_name not in KNOWN_SETS:
        return None
    known = KNOWN_SETS[set_name]
    # Next to measurements on different trials, readers could not know which number is comparable.
    results = each(measured, "summary.result")
    if not all(comparable(set_name, known.bona_fide, known.spoof) for known in results):
        return Literature(
            why_not=f"they are over {known.trials.bona_fide:,} bona fide and "
            f"{known.trials.spoof:,} spoof trials, and what was measured here is over others"
        )
    lengths = dict.fromkeys(system.summary.scored.length for system in measured)
    alike: list[Reference] = []
    for length in lengths:
        alike += of_the_same_length(known, length)
    shown: list[Reference] = []
    left_out: list[Reference] = []
    for reference in known.results:
        group = shown if reference in alike else left_out
        group.append(reference)
    other_lengths = "; ".join(dict.fromkeys(described(other.scored) for other in left_out))
    if not shown:
        measured_lengths = "; ".join(map(described, lengths))
        return Literature(
            why_not=f"they were scored from other lengths of the recordings ({other_lengths}) "
            f"than what was measured here ({measured_lengths})"
        )
    others = ""
    if left_out:
        others = f"{len(left_out)} more were scored from other lengths ({other_lengths})."
    return Literature(_published_table(known, shown), others)


def _published_table(known: KnownSet, references: Sequence[Reference]) -> PageTable:
    costs = []
    for reference in references:
        cost = reference.min_tdcf
        # With the digits of its paper, which differ from paper to paper.
        costs.append(Value(cost, text=None if cost is None else f"{cost:g}"))
    columns: Columns = [
        Column("eer", "EER %", paper_digits=2).with_values(each(references, "eer")),
        (Column("min_tdcf", "min t-DCF"), costs),
        texts("Scored", [described(known.scored) for known in references]),
        texts("Source", each(references, "paper")),
        texts("Remark", each(references, "note")),
    ]
    table = Table(each(references, "system"), columns, "System")
    return as_page(table, f"Published results on {known.title}", "published")
