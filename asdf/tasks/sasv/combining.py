"""One SASV score from the scores of a countermeasure (CM) and of speaker verification (ASV).

Invariant: parameters are fitted on a development set, never on the scores that are fused.

    nonlinear   -log((1 - r) exp(-ASV LLR) + r exp(-CM LLR)): the log-likelihood ratio of a target
                against impostors of which the share r are spoofs. Wang et al., "Revisiting and
                improving scoring fusion for spoofing-aware speaker verification using
                compositional data analysis", Interspeech 2024
    linear      ASV LLR + CM LLR
    sum         of the scores as they are, as baseline 1 of SASV 2022; nothing is fitted

The LLRs are affine maps of the scores (see `asdf.metrics.calibration`). The map of ASV scores is
fitted on targets against nontargets, that of CM scores on targets and nontargets against spoofs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import fit_llr
from asdf.metrics.tandem import TANDEM, TandemCost
from asdf.tasks.sasv.sasv_files import SasvScores

FUSIONS = ("nonlinear", "linear", "sum")


@dataclass(frozen=True)
class SasvFusion:
    """A fusion with its fitted parameters: LLR = scale * score + offset for each system.

    Attributes:
        kind: Name in `FUSIONS`.
        spoof_share: Share r of spoofs among impostors, for the nonlinear fusion.
    """

    kind: str
    asv_scale: float = 1.0
    asv_offset: float = 0.0
    cm_scale: float = 1.0
    cm_offset: float = 0.0
    spoof_share: float | None = None

    @property
    def are_llrs(self) -> bool:
        """Whether the fused scores are a log-likelihood ratio of targets against impostors."""
        return self.kind == "nonlinear"

    def fuse(self, asv: Floats, cm: Floats) -> Floats:
        """Return the fused scores of trials, (trials,)."""
        asv_llr = self.asv_scale * asv + self.asv_offset
        cm_llr = self.cm_scale * cm + self.cm_offset
        if self.spoof_share is None:
            total: Floats = asv_llr + cm_llr
            return total
        # The logarithm of a share of 0 is minus infinity: there are no impostors of that kind.
        with np.errstate(divide="ignore"):
            nontargets = np.log1p(-self.spoof_share) - asv_llr
            spoofs = np.log(self.spoof_share) - cm_llr
        # The exponential of a very negative LLR would overflow.
        fused: Floats = -np.logaddexp(nontargets, spoofs)
        return fused

    def apply(self, scores: SasvScores) -> SasvScores:
        """Return the scores with the fused ones as SASV scores.

        Raises:
            AsdfError: a system has no scores.
        """
        if scores.asv is None or scores.cm is None:
            raise AsdfError(
                "a fusion needs the scores of both systems: columns cm-score and asv-score, or "
                "two score files with --asv-scores."
            )
        fused = self.fuse(scores.asv, scores.cm)
        return SasvScores(scores.trials, cm=scores.cm, asv=scores.asv, sasv=fused)

    def describe(self) -> str:
        """Return the fusion in words."""
        if self.kind == "sum":
            return "CM score + ASV score"
        maps = (
            f"ASV LLR = {self.asv_scale:.6g} * score {self.asv_offset:+.6g}, "
            f"CM LLR = {self.cm_scale:.6g} * score {self.cm_offset:+.6g}"
        )
        if self.spoof_share is None:
            return f"ASV LLR + CM LLR, {maps}"
        return f"-log((1 - r) exp(-ASV LLR) + r exp(-CM LLR)), r = {self.spoof_share:.6g}, {maps}"


def spoof_share_of(cost: TandemCost) -> float:
    """Return the share of spoofs among impostors, weighted by the cost of accepting each."""
    return cost.spoof_weight / (cost.nontarget_weight + cost.spoof_weight)


def fit_fusion(
    kind: str,
    development: SasvScores | None,
    cost: TandemCost = TANDEM,
    spoof_share: float | None = None,
) -> SasvFusion:
    """Fit a fusion on the scores of both systems on a development set with known kinds.

    Args:
        kind: Name in `FUSIONS`.
        development: Scores of a development set; not needed for the sum.
        cost: Costs and priors that determine the share of spoofs if `spoof_share` does not. The
            fused score then has the lowest expected a-DCF if the LLRs are correct.

    Raises:
        UsageError: no development set, or a share outside 0 to 1.
        AsdfError: a system has no scores in the set, or higher scores do not mean targets.
    """
    if kind not in FUSIONS:
        raise ValueError(f"{kind!r} is not one of {FUSIONS}")
    if kind == "sum":
        return SasvFusion(kind)
    if development is None:
        raise UsageError(
            f"the {kind} fusion is fitted on a development set: name its scores and keys, or take "
            "the fusion 'sum', which fits nothing."
        )
    if spoof_share is not None and not 0 <= spoof_share <= 1:
        raise UsageError(f"a share of spoofs must lie between 0 and 1, but is {spoof_share}.")
    if development.asv is None or development.cm is None:
        raise AsdfError(
            "the development set has no scores of both systems: columns cm-score and asv-score."
        )
    target, nontarget, _ = development.by_kind("asv")
    asv_scale, asv_offset = _fit("ASV", target, nontarget)
    target, nontarget, spoof = development.by_kind("cm")
    cm_scale, cm_offset = _fit("CM", np.concatenate([target, nontarget]), spoof)
    share = None
    if kind == "nonlinear":
        share = spoof_share_of(cost) if spoof_share is None else spoof_share
    return SasvFusion(kind, asv_scale, asv_offset, cm_scale, cm_offset, share)


def _fit(system: str, positive: Floats, negative: Floats) -> tuple[float, float]:
    try:
        return fit_llr(positive, negative)
    except AsdfError as error:
        raise AsdfError(f"{system} scores of the development set: {error}") from None
