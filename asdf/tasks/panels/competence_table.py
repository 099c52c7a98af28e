"""The competence of detectors as text and as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asdf.metrics.metric_columns import EER
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Table, texts
from asdf.tasks.panels.competence import Competence
from asdf.text import p_value_text


def competence_lines(
    known: Sequence[Competence], level: float, speakers: int | None = None
) -> list[str]:
    """Return the table of competence, with an explanation of its columns.

    Args:
        speakers: Number of speakers that intervals and test are over; None: they are over trials.
    """
    # The table states verdicts, so the lowest EER is not marked.
    rates = replace(EER, marked=False).with_values([one.eer.value for one in known])
    bounds = [EER.format_bounds(one.eer, " .. ") for one in known]
    columns = [
        rates,
        texts("interval", bounds, is_left=True),
        texts("p", [p_value_text(one.p_value) for one in known]),
        texts("verdict", [one.verdict for one in known], is_left=True),
    ]
    over = "trials" if speakers is None else f"{speakers} speakers"
    names = [one.name for one in known]
    return [
        *as_lines(Table(names, columns, "detector")),
        "",
        f"intervals of 95 % and the test are over {over}; p: of ranks as good by chance (Mann and "
        "Whitney,",
        f"one-sided), corrected for {len(known)} detectors (Holm); competent below {level:g}",
    ]


def competence_record(known: Sequence[Competence]) -> list[dict[str, Any]]:
    """Return competence as plain values, with error rates as fractions."""
    rows = []
    for one in known:
        eer = one.eer
        row = {"name": one.name, "eer": eer.value, "eer_low": eer.low, "eer_high": eer.high}
        rows.append({**row, "p": one.p_value, "member": one.is_member, "turned": one.is_turned})
    return rows
