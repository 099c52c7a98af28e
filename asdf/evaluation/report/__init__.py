"""The report of one or several runs: a page in one file, for any browser, on no network."""

from __future__ import annotations

from asdf.evaluation.report.choosing import Choice, runs_in
from asdf.evaluation.report.gathering import Gathered, gather
from asdf.evaluation.report.page import report_page

__all__ = ["Choice", "Gathered", "gather", "report_page", "runs_in"]
