"""Whether training waits for its data, and what would help."""

from __future__ import annotations

from collections.abc import Mapping

from asdf.training.instruments.clock import DATA

_PROPORTION = 0.1
_JUDGED_S = 30.0


class DataWait:
    """Follows the proportion of the time that is spent waiting for clips, and says once that it is too much.

    Args:
        workers: loader processes of this process.
        cores: how many cores there are for it.
    """

    def __init__(self, workers: int, cores: int) -> None:
        self.workers, self.cores = workers, cores
        self._waited = self._total = 0.0
        self._said = False

    def advice(self, seconds: Mapping[str, float], steady: bool) -> str:
        """A line for the log when much of half a minute or more was spent waiting; else '', and so after that line.

        Args:
            seconds: of each part of the clock, since the last call.
            steady: False while the workers start on a new epoch; that time is not judged.
        """
        if steady:
            self._waited += seconds[DATA]
            self._total += sum(seconds.values())
        if self._said or self._total < _JUDGED_S or self._waited <= _PROPORTION * self._total:
            return ""
        self._said = True
        return f"waiting for data took {100 * self._waited / self._total:.0f} % of the time: {self._remedy()}"

    def _remedy(self) -> str:
        cores = f"{self.cores} core{'s' * (self.cores != 1)}"
        if self.workers < self.cores and self.cores > 1:
            return f"raise computing.network_dataloader_workers (now {self.workers} of {cores})"
        return (
            f"the {cores} of this process can read no faster. Ask for more cores, keep the recordings on a disk of "
            "the node itself, as WAV at 16 kHz, or augment less"
        )


def waiting(seconds: Mapping[str, float]) -> float:
    """The proportion of the time of all parts that was spent waiting for data, 0 to 1."""
    total = sum(seconds.values())
    return seconds[DATA] / total if total else 0.0
