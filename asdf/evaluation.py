"""Score files, EER, detection and tandem costs, intervals and results, for scripts and notebooks.

The rooms behind it are `asdf.trials` and `asdf.metrics`; numpy only.
"""

# ruff: noqa: F401 (names for others)

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
from asdf.trials.asv_scores import AsvScores, read_asv_scores
from asdf.trials.formats import read_keyed_scores
from asdf.trials.matching import read_any_scores, read_unlabelled_scores
from asdf.trials.score_file import Scores, read_scores, write_scores
from asdf.trials.trial_list import TrialList
