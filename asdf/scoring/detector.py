"""`asdf.Detector`: scores of recordings, of any format, rate and length, from a network file alone.

Invariant: a recording's trial score is the one that it gets as a trial of a list (`asdf.scoring`): the same reading,
speech activity detection and rules of length, from the settings that the network was trained with. The score of a
whole recording is the mean of the trial scores of its windows, so that no part of it goes unheard in silence.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from asdf.audio import audio_length
from asdf.errors import AsdfError
from asdf.interchange.network_file import read_network, settings_in
from asdf.metrics.calibration import Calibration, calibration_in
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.scoring.listening import blocks_of, hear, is_path, whole_waveform
from asdf.scoring.many import File, score_files
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.scorer import Scorer, find_device, set_threads
from asdf.scoring.whole_recording import Summary, Window, is_silent
from asdf.scoring.windows import in_samples, windows_in, windows_of
from asdf.text import printable
from asdf.trials.scored_length import ScoredLength


class Detector:
    """A network that tells bona fide speech from spoofs.

        detector = asdf.Detector("network.pt")
        detector.score("call.mp3")             # a file
        detector.score(samples, 44100)         # or an array
        detector.score_whole("hour.mp3")       # all of a long recording

    The higher a score, the more bona fide. It is the network's bona fide logit (or the difference of its logits,
    where its `network.score` says so); where the network is calibrated, the natural-log likelihood ratio.

    A *trial score* is what the protocol of the network's corpus hears: short recordings are repeated up to
    `length.min_samples`, long ones cut at `length.max_samples`. The *score of a whole recording* that is longer is the
    mean over windows of that length.

    Attributes:
        settings: those that the network was trained with.
        calibration: of the network file, or None.
        device: the `torch.device` that it computes on.
        precision: what it computes in on that device: 'fp32', 'tf32' or 'bf16'.
        length: how much of a recording a trial score is of.
    """

    def __init__(
        self,
        network_path: str | os.PathLike[str],
        device: str | torch.device = "auto",
        network_folder: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        full_length: bool = False,
        precision: Literal["fp32", "tf32", "bf16"] = "fp32",
    ) -> None:
        """Build the network from its file; nothing in the file is run.

        Args:
            device: 'auto': a GPU where there is one; or 'cpu', 'cuda', 'cuda:1'.
            network_folder: where the module of your own network class lies. Its code is run.
            threads: that torch computes with on the CPU, in this whole process; None: as many as it may use cores.
                A service with several workers on one machine gives each of them 1.
            full_length: trial scores of whole recordings up to 62.5 s (the defaults of
                `network.*_evaluation_utterance_length_in_samples`), whatever the network's file says.
            precision: what the network computes in; scores are float32 numbers in any case. 'tf32' and 'bf16' are
                faster on GPUs that have them, with about 3 and 2 digits. A device without TF32 computes in fp32.

        Raises:
            AsdfError: the file is no network of ASDF.
            UsageError: there is no such device, folder or precision, the GPU has no bf16, or the network takes one
                length only and is to score at full length.
        """
        set_threads(threads)
        path = Path(network_path)
        network, content = read_network(
            path, None if network_folder is None else Path(network_folder)
        )
        self.settings = settings_in(content, path)
        self.calibration: Calibration | None = calibration_in(content, path)
        self.device = find_device(device)
        self._scorer = Scorer(network, self.settings, self.device, full_length, precision)
        self.precision = self._scorer.precision.name
        if self._scorer.precision.reason:
            LOG.warning("%s", self._scorer.precision.describe())
        self.length = ScoredLength(self._scorer.least, self._scorer.most)
        self._summary = Summary(self._final, self._scorer.most)

    def score(self, recording: Any, sample_rate: int | None = None) -> float:
        """The trial score of one recording; a warning is logged when it says little, or is of its beginning only.

        Args:
            recording: a path; or an array (samples,), (samples, channels) or (channels, samples) with full scale 1
                if it is of floats, else int16 or int32.
            sample_rate: of an array, in Hz; a file states its own.

        Raises:
            AsdfError: the recording cannot be read, or its score is not a finite number.
        """
        heard = hear(self._scorer, recording, sample_rate)
        raw = float(self._scorer.scores([heard.waveform])[0])
        silent = is_silent(heard.waveform)
        length = heard.length
        result = self._summary.trial(0, None, raw, length.speech, length.recording, silent)
        if result.remark:
            LOG.warning("%s: %s", recording if is_path(recording) else "an array", result.remark)
        return self._final(raw)

    def score_whole(self, recording: Any, sample_rate: int | None = None) -> Scored:
        """The score of all of a recording, however long, with what was heard of it.

        One that is longer than `length.max_samples` is scored in windows of that length, which follow each other; the
        last one ends where the recording ends. Its score is their mean, so that every part counts; windows of digital
        silence do not. `lowest` is the window with the lowest score: a spoof that is a part of the recording shows
        there. A file is decoded once, and not held whole unless speech activity detection needs it.

        Args:
            recording, sample_rate: as in `score`.

        Raises:
            AsdfError: as `score`.
        """
        return self._whole(
            0, Path(recording) if is_path(recording) else None, recording, sample_rate
        )

    def score_many(
        self,
        paths: Iterable[str | os.PathLike[str]],
        whole: bool = False,
        progress: bool = False,
        is_known: Callable[[int], bool] | None = None,
    ) -> Iterator[Scored]:
        """Score files, those of equal length together; results come as they are ready, `place` tells whose they are.

        They come in portions of some dozens of files, in the order of `paths`, which may be any number. A file that
        cannot be scored gives a result with an `error`, and the rest go on.

        Args:
            whole: give the score of the whole recording, as `score_whole`, not that of the trial.
            progress: show how far a long recording is: a bar on a terminal, else lines in the log.
            is_known: whether the file at an index has a result already: it gives none. The others'
                scores are then the same to the last bit as if nothing were known, which they are
                not where such files are left out of `paths`: in another batch a score has other
                last digits.
        """
        files = (Path(path) for path in paths)
        return score_files(
            self._scorer,
            files,
            whole,
            self._file_as_trial,
            partial(self._file_whole, progress=progress),
            is_known or (lambda place: False),
        )

    def score_over_time(
        self,
        recording: Any,
        window_s: float = 4.0,
        hop_s: float = 2.0,
        sample_rate: int | None = None,
        progress: bool = False,
    ) -> list[WindowScore]:
        """Scores of windows of `window_s` seconds that start every `hop_s`, each scored as a recording by itself.

        The last window ends where the recording ends; a recording that is shorter than a window is one window.

        Args:
            recording, sample_rate: as in `score`.
            window_s, hop_s: seconds.
            progress: show how far a file is: a bar on a terminal, else lines in the log.

        Raises:
            AsdfError: as `score`; windows or hops that leave parts out.
        """
        window, hop = in_samples(window_s, hop_s, self._scorer.most)
        cut = windows_of(blocks_of(recording, sample_rate, window), window, hop)
        windows = self._score_windows(cut, window, self._scorer.speech)
        if progress and is_path(recording):
            path = Path(recording)
            windows = _tracked(windows, path, windows_in(audio_length(path), window, hop))
        return [self._summary.window(window) for window in windows]

    def _score_windows(
        self,
        cut: Iterator[tuple[int, np.ndarray]],
        length: int,
        speech: Callable[[np.ndarray], np.ndarray] = lambda waveform: waveform,
    ) -> Iterator[Window]:
        """Score windows of up to `length` samples, some at a time; the network hears what `speech` leaves of each."""
        while group := list(islice(cut, self._scorer.held_windows(length))):
            raw = self._scorer.scores([speech(waveform) for _, waveform in group]).tolist()
            for (start, waveform), score in zip(group, raw, strict=True):
                yield Window(start, start + len(waveform), score, is_silent(waveform))

    def _whole(
        self,
        place: int,
        path: Path | None,
        recording: Any,
        sample_rate: int | None = None,
        track_windows: Callable[[Iterator[Window]], Iterator[Window]] = iter,
    ) -> Scored:
        window, total = self._scorer.most, None
        if self._scorer.whole:
            # Whether a frame is speech depends on the loudest one, which may be the last.
            waveform = whole_waveform(recording, sample_rate)
            total = len(waveform)
            blocks: Iterable[np.ndarray] = [self._scorer.speech(waveform)]
        else:
            blocks = blocks_of(recording, sample_rate, window)
        windows = self._score_windows(windows_of(blocks, window, window), window)
        return self._summary.whole(place, path, list(track_windows(windows)), total)

    def _file_as_trial(self, file: File, raw: float, silent: bool) -> Scored:
        return self._summary.trial(file.place, file.path, raw, file.speech, file.total, silent)

    def _file_whole(self, file: File, progress: bool) -> Scored:
        if not progress:
            return self._whole(file.place, file.path, file.path)
        window = self._scorer.most
        count = windows_in(file.speech, window, window)
        tracked = partial(_tracked, path=file.path, count=count)
        return self._whole(file.place, file.path, file.path, track_windows=tracked)

    def _final(self, raw: float) -> float:
        if not np.isfinite(raw):
            raise AsdfError(
                "the network gives a score that is not a finite number: it has probably diverged."
            )
        return float(raw if self.calibration is None else self.calibration.llr(raw))


def _tracked(windows: Iterator[Window], path: Path, count: int) -> Iterator[Window]:
    return track(windows, count, f"scoring {printable(path.name)}", unit="windows")
