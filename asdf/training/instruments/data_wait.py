"""Whether training waits for its data, and what would help."""

from __future__ import annotations

from collections.abc import Mapping

from asdf.training.instruments.clock import DATA

_ACCEPTED_SHARE = 0.1
_JUDGED_S = 30.0


class DataWait:
    """Sums up the time spent waiting for clips, and reports once that it is too much.

    Args:
        workers: loader processes of this process.
        cores: Number of cores that this process may use.
    """

    def __init__(self, workers: int, cores: int) -> None:
        self.workers = workers
        self.cores = cores
        self._waited_s = 0.0
        self._total_s = 0.0
        self._is_reported = False

    def advice(self, seconds: Mapping[str, float], steady: bool) -> str:
        """Return a line for the log if much of half a minute or more was spent waiting, else ''.

        The line comes once.

        Args:
            seconds: Seconds of each part of the clock, since the last call.
            steady: False while the workers start on a new epoch; that time is not judged.
        """
        if steady:
            self._waited_s += seconds[DATA]
            self._total_s += sum(seconds.values())
        if self._is_reported or self._total_s < _JUDGED_S:
            return ""
        if self._waited_s <= _ACCEPTED_SHARE * self._total_s:
            return ""
        self._is_reported = True
        percentage = 100 * self._waited_s / self._total_s
        return f"waiting for data took {percentage:.0f} % of the time: {self._remedy()}"

    def _remedy(self) -> str:
        cores = f"{self.cores} core{'s' * (self.cores != 1)}"
        if self.workers < self.cores and self.cores > 1:
            return f"raise computing.network_dataloader_workers (now {self.workers} of {cores})"
        return (
            f"the {cores} of this process can read no faster. Ask for more cores, keep the "
            "recordings on a disk of the node itself, as WAV at 16 kHz, or augment less"
        )


def waiting_share(seconds: Mapping[str, float]) -> float:
    """Return the share of the time of all parts that was spent waiting for data, 0 to 1."""
    total = sum(seconds.values())
    if not total:
        return 0.0
    return seconds[DATA] / total
