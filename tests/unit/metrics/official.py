"""The formulas of the official packages as plain loops over trials, independent of `asdf`."""

import math


def det_points(bona_fide: list[float], spoof: list[float]) -> list[tuple[float, float, float]]:
    """Return (frr, far, threshold) trial by trial from the lowest score on.

    `sorted` leaves bona fide first in ties.
    """
    trials = [(s, True) for s in bona_fide] + [(s, False) for s in spoof]
    trials.sort(key=lambda trial: trial[0])
    missed = rejected = 0
    points = [(0.0, 1.0, trials[0][0] - 0.001)]
    for score, is_bona_fide in trials:
        missed += is_bona_fide
        rejected += not is_bona_fide
        points.append((missed / len(bona_fide), (len(spoof) - rejected) / len(spoof), score))
    return points


def eer(bona_fide: list[float], spoof: list[float]) -> tuple[float, float]:
    points = det_points(bona_fide, spoof)
    frr, far, threshold = min(points, key=lambda point: abs(point[0] - point[1]))
    return (frr + far) / 2, threshold


def min_dcf(bona_fide, spoof, prior=0.05, miss=1, fa=10):
    c_miss, c_fa = miss * (1 - prior), fa * prior
    points = det_points(bona_fide, spoof)
    return min(c_miss * frr + c_fa * far for frr, far, _ in points) / min(c_miss, c_fa)


def act_dcf(bona_fide: list[float], spoof: list[float]) -> float:
    threshold = -math.log(1.9)
    miss = sum(s < threshold for s in bona_fide) / len(bona_fide)
    return (0.95 * miss + 0.5 * sum(s >= threshold for s in spoof) / len(spoof)) / 0.5


def cllr(bona_fide: list[float], spoof: list[float]) -> float:
    miss = sum(math.log2(1 + math.exp(-s)) for s in bona_fide) / len(bona_fide)
    return (miss + sum(math.log2(1 + math.exp(s)) for s in spoof) / len(spoof)) / 2


def auc(bona_fide: list[float], spoof: list[float]) -> float:
    wins = sum((b > s) + (b == s) / 2 for b in bona_fide for s in spoof)
    return wins / len(bona_fide) / len(spoof)


def min_cllr(bona_fide: list[float], spoof: list[float]) -> float:
    """Isotonic regression by its min-max formula, O(n^3), over the distinct scores."""
    values = sorted({*bona_fide, *spoof})
    ones = [bona_fide.count(v) for v in values]
    zeros = [spoof.count(v) for v in values]

    def mean(i: int, j: int) -> float:
        return sum(ones[i : j + 1]) / sum(ones[i : j + 1] + zeros[i : j + 1])

    total, odds = 0.0, len(bona_fide) / len(spoof)
    for k in range(len(values)):
        p = max(min(mean(i, j) for j in range(k, len(values))) for i in range(k + 1))
        if ones[k]:
            total += ones[k] / len(bona_fide) * math.log2(1 + (1 - p) / p * odds)
        if zeros[k]:
            total += zeros[k] / len(spoof) * math.log2(1 + p / (1 - p) / odds)
    return total / 2


def tandem_points(tar, non, spf):
    """(miss, nontarget false alarms, spoof false alarms, threshold), one trial at a time."""
    trials = [(score, kind) for kind, scores in enumerate((tar, non, spf)) for score in scores]
    trials.sort(key=lambda trial: trial[0])
    passed = [0, 0, 0]
    points = [(0.0, 1.0, 1.0, trials[0][0])]
    for score, kind in trials:
        passed[kind] += 1
        miss, fa, spoof_fa = (n / len(k) for n, k in zip(passed, (tar, non, spf), strict=True))
        points.append((miss, 1 - fa, 1 - spoof_fa, score))
    return points


def a_dcf(tar: list[float], non: list[float], spf: list[float]) -> float:
    points = tandem_points(tar, non, spf)
    return min(0.9405 * miss + 0.095 * fa + 0.5 * spoof for miss, fa, spoof, _ in points) / 0.595


def t_eer(asv: tuple[list[float], ...], cm: tuple[list[float], ...]) -> float | None:
    """Return the pair of thresholds that is nearest to concurrence.

    The pairs are each ASV threshold with the CM threshold of equal tandem rates.
    """
    best, value = math.inf, None
    cm_points = det_points(cm[0] + cm[1], cm[2])
    for miss, fa, spoof_fa, _ in tandem_points(*asv):

        def unequal(point, miss=miss, fa=fa, spoof_fa=spoof_fa):
            tandem_miss = point[0] + (1 - point[0]) * miss
            return abs(tandem_miss - (0.5 * (1 - point[0]) * fa + 0.5 * point[1] * spoof_fa))

        frr, far, _ = min(cm_points, key=unequal)
        if miss < 0.5 * fa + 0.5 * spoof_fa and spoof_fa and frr < 1:
            gap = abs(fa / spoof_fa - far / (1 - frr))
            if gap < best:
                best, value = gap, spoof_fa * far
    return value
