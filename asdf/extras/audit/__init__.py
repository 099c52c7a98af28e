"""Audits of corpora: shortcuts that reveal the class without listening to speech, and errors.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.extras.audit.audited import Audit
    from asdf.extras.audit.auditing import Options, audit_recordings, check_classes
    from asdf.extras.audit.features import FEATURES
    from asdf.extras.audit.measuring import Measured, as_entry, from_entry, measure_all
    from asdf.extras.audit.rebalancing import Rebalanced, rebalance
    from asdf.extras.audit.results import audit_json, audit_page, audit_text, rebalanced_text
    from asdf.extras.audit.single import check_installed

__all__, __getattr__ = open_door(__name__)
