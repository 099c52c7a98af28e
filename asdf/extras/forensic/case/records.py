"""A case as JSON, for other programs and for the file.

Invariant: it contains every number of the page, with all digits.
"""

from __future__ import annotations

from typing import Any

from asdf.extras.forensic.case.examining import Examined
from asdf.extras.forensic.case.making import Case
from asdf.extras.forensic.case.wording import limits, propositions, statements
from asdf.tables.plain_json import as_json


def case_json(case: Case) -> str:
    """Return a case as JSON."""
    calibration = case.calibration
    headings = case.headings
    made_by = {**case.provenance.entry(), "software": case.software, "command": case.command}
    # Null if not given: a clock would give other bytes each time.
    made_by["date"] = headings.date or None
    record: dict[str, Any] = {
        "case": {
            "title": headings.title,
            "reference": headings.reference,
            "examiner": headings.examiner,
        },
        **case.heading.entries(),
        "propositions": propositions(calibration),
        "calibration": None if calibration is None else calibration.public(),
        "validation": None if case.validation is None else case.validation.entry(),
        "recordings": [_recording_entry(one, case) for one in case.recordings],
        "limits": limits(case),
        # In files of `score --json`, which have the same form, a list may not be finished.
        "complete": True,
        "made_by": made_by,
    }
    return as_json(record)


def _recording_entry(one: Examined, case: Case) -> dict[str, Any]:
    entry = one.result.entry()
    entry["raw"] = one.result.raw
    if one.facts is not None:
        entry["sha256"] = one.facts.sha256
        entry["file"] = one.facts.entry()
    entry["windows"] = [window.entry() for window in one.windows]
    entry["statements"] = statements(one, case)
    return entry
