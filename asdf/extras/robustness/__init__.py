"""Robustness of detectors to degradations: speech that is coded, mixed, replayed or cut.

Everything is imported on first use, so that a command waits only for what it needs.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.extras.robustness.conditions import (
        BENCHMARKS,
        CLEAN,
        Chosen,
        Condition,
        choose_conditions,
        parse_grades,
    )
    from asdf.extras.robustness.degradations import DEGRADATIONS, NOT_HERE, Material
    from asdf.extras.robustness.making import BYTES_PER_S, copy_name, list_digest, write_copy
    from asdf.extras.robustness.measuring import (
        METRICS,
        Drawing,
        Judging,
        Measured,
        judging_of,
        measure_network,
    )
    from asdf.extras.robustness.results import (
        interval_record,
        judging_sentence,
        left_out_notes,
        study_csv,
        study_files,
        study_json,
        study_latex,
        study_page,
        study_text,
    )
    from asdf.extras.robustness.running import (
        Plan,
        Rival,
        Study,
        run_study,
        score_path,
        seconds_of,
    )

__all__, __getattr__ = open_door(__name__)
