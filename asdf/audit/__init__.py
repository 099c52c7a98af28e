"""Audits of corpora: shortcuts that reveal the class without listening to speech, and errors.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.audit.audited import Audit
    from asdf.audit.auditing import Options, audit_recordings, check_classes
    from asdf.audit.features import FEATURES
    from asdf.audit.measuring import Measured, as_entry, from_entry, measure_all
    from asdf.audit.rebalancing import Rebalanced, rebalance
    from asdf.audit.results import audit_json, audit_page, audit_text, rebalanced_text
    from asdf.audit.single import check_installed

__all__, __getattr__ = open_door(__name__)
