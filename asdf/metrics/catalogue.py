"""The metrics of a summary, each with its names and its unit; tables of all kinds draw on it.

Invariant: a metric has the same name, unit and order in every output, and digits enough to be
compared with those of the official packages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from asdf.metrics.summary import Summary


@dataclass(frozen=True)
class Metric:
    """One metric of pooled trials.

    Attributes:
        key: its name for programs.
        heading: its name in text.
        value: reads it from a summary; None where it is not defined.
        percent: whether it is a fraction that people read in per cent.
        ranked: whether systems are better or worse by it.
        digits: decimals in text, those of a per cent value if it is one.
        paper_digits: decimals in publications.
    """

    key: str
    heading: str
    value: Callable[[Summary], float | None]
    percent: bool = False
    ranked: bool = True
    digits: int = 10
    paper_digits: int = 4

    def text(self, summary: Summary, *, paper: bool = False) -> str:
        """Return the value in the unit of the heading; '-' where it is not defined."""
        value = self.value(summary)
        if value is None:
            return "-"
        shown = 100 * value if self.percent else value
        digits = self.paper_digits if paper else self.digits
        return f"{shown:.{digits}f}"


# EERs have 9 decimals, as the package of ASVspoof 2019 prints them.
METRICS = (
    Metric("eer", "EER %", lambda s: s.result.eer, percent=True, digits=9, paper_digits=2),
    Metric("eer_threshold", "EER threshold", lambda s: s.result.eer_threshold, ranked=False),
    Metric("min_dcf", "minDCF", lambda s: s.result.min_dcf),
    Metric("act_dcf", "actDCF", lambda s: s.result.act_dcf),
    Metric("cllr", "Cllr", lambda s: s.result.cllr),
    Metric("min_cllr", "min Cllr", lambda s: s.min_cllr),
    Metric("auc", "AUC", lambda s: s.auc),
    Metric("tdcf_2019", "min t-DCF 2019", lambda s: s.tdcf_2019),
    Metric("tdcf_2021", "min t-DCF 2021", lambda s: s.tdcf_2021),
    Metric("t_eer", "t-EER %", lambda s: s.t_eer, percent=True, digits=9, paper_digits=2),
)


def defined(summaries: Sequence[Summary]) -> list[Metric]:
    """Return the metrics that at least one of the summaries has."""
    metrics = []
    for metric in METRICS:
        if any(metric.value(summary) is not None for summary in summaries):
            metrics.append(metric)
    return metrics
