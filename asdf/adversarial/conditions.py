"""Attacks of a study, with their levels, on the detector itself or transferred from another.

Invariant: unknown or invalid values are refused before any work. Random noise is always measured
too, as a baseline for the attacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from asdf.adversarial.attacks import ATTACKS, NOISE, Attack, Level, Search
from asdf.errors import UsageError
from asdf.robustness import CLEAN
from asdf.text import did_you_mean

SNRS_DB = (60.0, 50.0, 40.0, 30.0, 20.0)
"""Default levels."""

_SNR_RANGE_DB = (-20.0, 120.0)


@dataclass(frozen=True)
class Condition:
    """An attack with a level; without an attack, recordings are unchanged.

    Attributes:
        is_transferred: Whether it uses the gradients of another detector.
    """

    attack: Attack | None = None
    level: Level | None = None
    is_transferred: bool = False

    @property
    def kind(self) -> str:
        """Name for files without the level: 'pgd', 'transferred-pgd'."""
        if self.attack is None:
            return CLEAN
        return f"transferred-{self.attack.name}" if self.is_transferred else self.attack.name

    @property
    def name(self) -> str:
        """Name for files: 'pgd_40'."""
        return self.kind if self.level is None else f"{self.kind}_{self.level.name}"

    @property
    def kind_label(self) -> str:
        """Name for people without the level: 'PGD', 'transferred PGD'."""
        if self.attack is None:
            return "no attack"
        return f"transferred {self.attack.label}" if self.is_transferred else self.attack.label

    @property
    def label(self) -> str:
        """Name for people: 'PGD, 40 dB'."""
        if self.level is None:
            return self.kind_label
        return f"{self.kind_label}, {self.level.label}"


def choose_attacks(
    names: Sequence[str] = (),
    snrs_db: Sequence[float] = (),
    peaks: Sequence[float] = (),
    *,
    transfers: bool = False,
) -> list[Condition]:
    """Return the conditions of a study except the unattacked one, level by level.

    Args:
        names: Names of attacks; empty: all.
        snrs_db: Signal-to-noise ratios in dB; `SNRS_DB` if empty and there are no peaks.
        peaks: Maximum changes of a sample, relative to full scale.
        transfers: Whether each attack is also computed on another detector.

    Raises:
        UsageError: an attack is unknown, or a level is not valid.
    """
    for name in names:
        if name not in ATTACKS:
            near = did_you_mean(name, list(ATTACKS))
            raise UsageError(f"there is no attack {name}.{near} {', '.join(ATTACKS)} are known.")
    # In the order of ATTACKS: noise comes before the attacks that it is compared with.
    chosen = [name for name in ATTACKS if name in names or not names or name == NOISE]
    if chosen == [NOISE]:
        raise UsageError("noise is only measured as the baseline of attacks: name an attack too.")
    conditions = []
    for level in _levels(snrs_db, peaks):
        for name in chosen:
            attack = ATTACKS[name]
            conditions.append(Condition(attack, level))
            if transfers and attack.has_gradients:
                conditions.append(Condition(attack, level, is_transferred=True))
    return conditions


def _levels(snrs_db: Sequence[float], peaks: Sequence[float]) -> list[Level]:
    """Return levels ordered from the weakest to the strongest."""
    lowest, highest = _SNR_RANGE_DB
    for snr_db in snrs_db:
        # Written so that NaN, which float() reads as well, is refused.
        if not lowest <= snr_db <= highest:
            raise UsageError(f"an SNR of {snr_db:g} dB: {lowest:g} to {highest:g} is allowed.")
    for peak in peaks:
        if not 0 < peak <= 1:
            raise UsageError(f"a peak of {peak:g}: a share of full scale is needed, such as 0.001.")
    if not snrs_db and not peaks:
        snrs_db = SNRS_DB
    # A lower ratio is a stronger attack.
    levels = [Level(snr_db) for snr_db in sorted(set(snrs_db), reverse=True)]
    return levels + [Level(peak, is_peak=True) for peak in sorted(set(peaks))]


def check_search(search: Search) -> None:
    """Refuse invalid parameters of a search.

    Raises:
        UsageError: a parameter is not valid; the message names it.
    """
    if search.steps < 1 or search.restarts < 1:
        raise UsageError("an attack needs at least one step and one start.")
    if search.step is not None and not (0 < search.step < math.inf):
        raise UsageError(f"a step of {search.step:g} radii: set a positive number, such as 0.25.")
