"""`asdf.Detector`: scores of recordings, of any format, rate and length, from a network file alone.

Invariant: a recording's score is the one that it gets as a trial of a list (`asdf.scoring`): the same reading, speech
activity detection and rules of length, from the settings that the network was trained with.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asdf.audio import SAMPLE_RATE, audio_length, read_audio, repeat_to
from asdf.audio.archives import find_member
from asdf.detector.ahead import pool_of_readers, read_ahead
from asdf.detector.calibration import Calibration, calibration_in
from asdf.detector.scorer import Scorer, find_device
from asdf.detector.waveforms import as_waveform
from asdf.detector.windows import in_samples, window_starts
from asdf.errors import AsdfError, UsageError
from asdf.networks.detector_file import read_network, settings_in

# Recordings that are sorted by length together: many, so that batches are full, but the first result comes soon.
_TOGETHER = 4096


@dataclass(frozen=True)
class Scored:
    """What became of one of many recordings.

    Attributes:
        place: its place among the paths given, from 0.
        score: as `Detector.score` gives it; None when the recording could not be scored.
        raw: the network's own score, which a calibrated detector maps to `score`; None as above.
        error: why it could not be scored, one line; '' when it could.
    """

    place: int
    path: Path
    score: float | None = None
    raw: float | None = None
    error: str = ""


@dataclass(frozen=True)
class WindowScore:
    """The score of a part of a recording, as of a recording by itself."""

    start_s: float
    end_s: float
    score: float


class Detector:
    """A network that tells bona fide speech from spoofs.

        detector = asdf.Detector("network.pt")
        detector.score("call.mp3")             # a file
        detector.score(samples, 44100)         # or an array

    The higher a score, the more bona fide. It is the network's bona fide logit (or the difference of its logits,
    where its `network.score` says so); where the network is calibrated, the natural-log likelihood ratio.

    Attributes:
        settings: those that the network was trained with.
        calibration: of the network file, or None.
        device: the `torch.device` that it computes on, in full float32.
    """

    def __init__(
        self,
        network_path: str | os.PathLike[str],
        device: str | torch.device = "auto",
        network_folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Build the network from its file; nothing in the file is run.

        Args:
            device: 'auto': a GPU where there is one; or 'cpu', 'cuda', 'cuda:1'.
            network_folder: where the module of your own network class lies. Its code is run.

        Raises:
            AsdfError: the file is no network of ASDF.
            UsageError: there is no such device.
        """
        path = Path(network_path)
        network, content = read_network(path, None if network_folder is None else Path(network_folder))
        self.settings = settings_in(content, path)
        self.calibration: Calibration | None = calibration_in(content, path)
        self.device = find_device(device)
        self._scorer = Scorer(network, self.settings, self.device)

    def score(self, recording: Any, sample_rate: int | None = None) -> float:
        """The score of one recording.

        Args:
            recording: a path; or an array (samples,), (samples, channels) or (channels, samples) with full scale 1
                if it is of floats, else int16 or int32.
            sample_rate: of an array, in Hz; a file states its own.

        Raises:
            AsdfError: the recording cannot be read, or its score is not a finite number.
        """
        if _is_path(recording) and not self._scorer.whole:
            _without_rate(sample_rate)
            speech = read_audio(_present(recording), 0, self._scorer.most)
        else:
            speech = self._scorer.speech(_waveform(recording, sample_rate))
        return self._final(self._scorer.scores([speech])[0])

    def score_many(self, paths: Iterable[str | os.PathLike[str]]) -> Iterator[Scored]:
        """Score files, those of equal length together; results come as they are ready, `place` tells whose they are.

        A file that cannot be scored gives a result with an `error`, and the rest go on.
        """
        files, place = iter(paths), 0
        while some := [Path(path) for path in islice(files, _TOGETHER)]:
            yield from self._score_together(place, some)
            place += len(some)

    def score_over_time(
        self, recording: Any, window_s: float = 4.0, hop_s: float = 2.0, sample_rate: int | None = None
    ) -> list[WindowScore]:
        """Scores of windows of `window_s` seconds that start every `hop_s`, each scored as a recording by itself.

        The last window ends where the recording ends; a recording that is shorter than a window is one window.

        Raises:
            AsdfError: as `score`; windows or hops that leave parts out.
        """
        window, hop = in_samples(window_s, hop_s)
        waveform = _waveform(recording, sample_rate)
        starts = window_starts(len(waveform), window, hop)
        raw = self._scorer.scores([self._scorer.speech(waveform[start : start + window]) for start in starts])
        ends = [min(start + window, len(waveform)) for start in starts]
        return [
            WindowScore(start / SAMPLE_RATE, end / SAMPLE_RATE, self._final(score))
            for start, end, score in zip(starts, ends, raw, strict=True)
        ]

    def _score_together(self, first: int, paths: list[Path]) -> Iterator[Scored]:
        with pool_of_readers() as pool:
            lengths = list(pool.map(self._length, paths))
            for index, length in enumerate(lengths):
                if isinstance(length, AsdfError):
                    yield Scored(first + index, paths[index], error=str(length))
            kept = [index for index, length in enumerate(lengths) if not isinstance(length, AsdfError)]
            plan = self._scorer.batches([length for length in lengths if not isinstance(length, AsdfError)])
            batches = [[(kept[trial], batch.samples) for trial in batch.trials.tolist()] for batch in plan]
            for batch, waveforms in read_ahead(pool, lambda item: self._part(paths[item[0]], item[1]), batches):
                good = [waveform for waveform in waveforms if not isinstance(waveform, AsdfError)]
                raw = iter(self._scorer.forward(np.stack(good)).tolist() if good else [])
                for (index, _), waveform in zip(batch, waveforms, strict=True):
                    if isinstance(waveform, AsdfError):
                        yield Scored(first + index, paths[index], error=str(waveform))
                    else:
                        yield self._scored(first + index, paths[index], next(raw))

    def _scored(self, place: int, path: Path, raw: float) -> Scored:
        try:
            return Scored(place, path, self._final(raw), raw)
        except AsdfError as error:
            return Scored(place, path, error=str(error))

    def _length(self, path: Path) -> int | AsdfError:
        """Samples of speech; what is beyond the greatest length that is scored does not matter."""
        try:
            if not self._scorer.whole:
                return audio_length(_present(path))
            return len(self._scorer.speech(read_audio(_present(path))))
        except (AsdfError, OSError) as error:
            return _told(path, error)

    def _part(self, path: Path, samples: int) -> np.ndarray | AsdfError:
        """The first `samples` of speech, repeated where there are fewer."""
        try:
            if not self._scorer.whole:
                return repeat_to(read_audio(path, 0, samples), samples)
            return repeat_to(self._scorer.speech(read_audio(path))[:samples], samples)
        except (AsdfError, OSError) as error:
            return _told(path, error)

    def _final(self, raw: float) -> float:
        if not np.isfinite(raw):
            raise AsdfError("the network gives a score that is not a finite number: it has probably diverged.")
        return float(raw if self.calibration is None else self.calibration.llr(raw))


def _waveform(recording: Any, sample_rate: int | None) -> np.ndarray:
    if not _is_path(recording):
        return as_waveform(recording, sample_rate)
    _without_rate(sample_rate)
    return read_audio(_present(recording))


def _is_path(recording: Any) -> bool:
    return isinstance(recording, str | os.PathLike)


def _without_rate(sample_rate: int | None) -> None:
    if sample_rate is not None:
        raise UsageError("sample_rate is for arrays: a file states its own. Leave it out.")


def _present(path: str | os.PathLike[str]) -> Path:
    if not Path(path).exists() and find_member(path) is None:
        raise AsdfError(f"there is no file {path}. Check the path; a relative one is relative to {Path.cwd()}.")
    return Path(path)


def _told(path: Path, error: AsdfError | OSError) -> AsdfError:
    return error if isinstance(error, AsdfError) else AsdfError(f"{path} cannot be read: {error.strerror or error}.")
