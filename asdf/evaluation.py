"""Score files, EER, detection and tandem costs, intervals and results, for scripts and notebooks.

The rooms behind it are `asdf.trials` and `asdf.metrics`; numpy only.
"""

from __future__ import annotations

from asdf.metrics.bootstrap import Interval, Intervals, confidence_intervals, paired_test
from asdf.metrics.decisions import Confusion, Decisions, Threshold, choose_threshold, decide
from asdf.metrics.detection import (
    ASVSPOOF5,
    DetCurve,
    DetectionCost,
    act_dcf,
    auc,
    cllr,
    det_curve,
    eer,
    min_cllr,
    min_dcf,
)
from asdf.metrics.results import Result, Row, by_condition, evaluate, results_table, write_results
from asdf.metrics.score_checks import Finding, check_scores, tied_proportion
from asdf.metrics.tandem import (
    ASVSPOOF5_ASV,
    TANDEM,
    AsvRates,
    TandemCost,
    asv_rates,
    min_a_dcf,
    min_tdcf,
    min_tdcf_legacy,
    t_eer,
    t_eer_path,
)
from asdf.tasks.localisation.located_measures import LocatedRecording, localisation
from asdf.tasks.sasv.sasv_files import (
    SasvScores,
    SasvTrials,
    read_sasv_keys,
    read_sasv_scores,
    with_keys,
    write_sasv_scores,
)
from asdf.tasks.sasv.sasv_measures import (
    SasvFusion,
    SasvResult,
    fit_fusion,
    sasv_result,
    summarise_sasv,
)
from asdf.trials.formats import read_keyed_scores
from asdf.trials.matching import read_any_scores, read_unlabelled_scores
from asdf.trials.score_file import AsvScores, Scores, read_asv_scores, read_scores, write_scores
from asdf.trials.trial_list import TrialList

# Type checkers and editors take only these as public.
__all__ = [
    "ASVSPOOF5",
    "ASVSPOOF5_ASV",
    "TANDEM",
    "AsvRates",
    "AsvScores",
    "Confusion",
    "Decisions",
    "DetCurve",
    "DetectionCost",
    "Finding",
    "Interval",
    "Intervals",
    "LocatedRecording",
    "Result",
    "Row",
    "SasvFusion",
    "SasvResult",
    "SasvScores",
    "SasvTrials",
    "Scores",
    "TandemCost",
    "Threshold",
    "TrialList",
    "act_dcf",
    "asv_rates",
    "auc",
    "by_condition",
    "check_scores",
    "choose_threshold",
    "cllr",
    "confidence_intervals",
    "decide",
    "det_curve",
    "eer",
    "evaluate",
    "fit_fusion",
    "localisation",
    "min_a_dcf",
    "min_cllr",
    "min_dcf",
    "min_tdcf",
    "min_tdcf_legacy",
    "paired_test",
    "read_any_scores",
    "read_asv_scores",
    "read_keyed_scores",
    "read_sasv_keys",
    "read_sasv_scores",
    "read_scores",
    "read_unlabelled_scores",
    "results_table",
    "sasv_result",
    "summarise_sasv",
    "t_eer",
    "t_eer_path",
    "tied_proportion",
    "with_keys",
    "write_results",
    "write_sasv_scores",
    "write_scores",
]
