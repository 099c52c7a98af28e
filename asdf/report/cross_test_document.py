"""The page of a cross-test: its coloured matrix, and the meaning of the numbers."""

from __future__ import annotations

from collections.abc import Sequence

from asdf.report.document import Document, Section, document_page
from asdf.tables.page_cells import as_page
from asdf.tables.table import RATE
from asdf.tasks.cross_testing.cross_test import CrossTest
from asdf.tasks.cross_testing.cross_test_tables import SOURCE, cross_test_table, remarks


def cross_test_page(name: str, result: CrossTest, facts: Sequence[str]) -> str:
    """Return the page as HTML.

    Args:
        facts: Facts in small print, such as versions and the command.
    """
    worst = max(result.all_pairs, key=lambda pair: pair.eer.value)
    overall = result.overall
    lead = [
        f"{len(result.spoofs)} sets of spoofs against {len(result.genuine)} sets of genuine "
        f"speech: {RATE.format(overall.mean.value)} % EER on average, "
        f"{RATE.format(overall.highest.value)} % at most ({worst.spoof.name} against "
        f"{worst.genuine.name})."
    ]
    notes = [
        "Each pair has an EER and a threshold of its own, so larger sets do not count more. The "
        "highest EER of a row says against which genuine speech these spoofs pass; that of a "
        "column, which spoofs pass as this genuine speech. In the corner are the highest of all, "
        "the mean over columns of their highest, and the mean of all."
    ]
    if result.over:
        notes.append(
            f"Small numbers: 95 % intervals over {result.over}, all from the same draws of the "
            "sets. The highest of many EERs is too high by chance; its interval allows for that."
        )
    caption = (
        f"EER in %: spoofs by {result.by[0]} (rows), genuine speech by {result.by[1]} (columns)"
    )
    table = as_page(cross_test_table(result), caption, "heat")
    section = Section("matrix", "Matrix", tables=[table], notes=notes)
    title = f"{name}: {SOURCE}"
    return document_page(Document(title, lead, [section], alarms=remarks(result), facts=facts))
