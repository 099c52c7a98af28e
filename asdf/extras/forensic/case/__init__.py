"""The page of a case: recordings, a network's statements about them, and their value.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.extras.forensic.case.making import Case, Headings, make_case
    from asdf.extras.forensic.case.pages import case_page
    from asdf.extras.forensic.case.printing import find_browser, print_page
    from asdf.extras.forensic.case.records import case_json
    from asdf.extras.forensic.case.validating import Validation, validate

__all__, __getattr__ = open_door(__name__)
