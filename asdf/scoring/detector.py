"""`asdf.Detector`: scores of recordings, of any format, rate and length, from a network file alone.

Invariant: a recording's trial score is the one that it gets as a trial of a list (`asdf.scoring.
score_list`): the same reading, speech activity detection and scorer, from the settings that the
network was trained with. It does not depend on the recordings that it is scored with, up to
rounding; so none is cut to share a batch (`network.max_cut_proportion`). The score of a whole
recording is the mean of the trial scores of its windows, so that all of it counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from asdf.audio import audio_length, cut_to_speech
from asdf.audio.speech import needs_whole_recording
from asdf.audio.speech_activity import check_detector
from asdf.distributed.resources import gpu_memory
from asdf.errors import AsdfError, UsageError
from asdf.interchange import read_network
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.scoring.device import find_device, set_threads
from asdf.scoring.listening import is_path, read_in_blocks, read_trial, read_whole
from asdf.scoring.many import File, FileScoring
from asdf.scoring.precision import choose_scoring_precision
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.scorer import Scorer
from asdf.scoring.whole_recording import Summary, Trial, Window, is_silent
from asdf.scoring.windows import Cut, count_windows, cut_windows, in_samples
from asdf.settings.sections import Network, SpeechActivity
from asdf.text import printable
from asdf.trials.scored_length import ScoredLength

# Windows that are in memory together, in samples: 64 MiB, so that batches are full and ten hours
# take no more than an hour.
_HELD_SAMPLES = 2**24

_NO_DETECTION = SpeechActivity(mode="off")


class Detector:
    """A network that tells bona fide speech from spoofs.

        detector = asdf.Detector("network.pt")
        detector.score("call.mp3")             # a file
        detector.score(samples, 44100)         # or an array
        detector.score_whole("hour.mp3")       # all of a long recording

    The higher a score, the more bona fide. It is the network's bona fide logit, which is a cosine
    for some losses (or the difference of its logits, or a natural-log likelihood ratio, where its
    `network.score` says so); where the network is calibrated, the natural-log likelihood ratio.

    A *trial score* is what the protocol of the network's corpus hears: short recordings are
    repeated up to `length.min_samples`, long ones cut at `length.max_samples`. The *score of a
    whole recording* that is longer is the mean over windows of that length.

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
        base: str | os.PathLike[str] | None = None,
    ) -> None:
        """Build the network from its file; nothing in the file is run.

        Args:
            device: 'auto': a GPU where there is one; or 'cpu', 'cuda', 'cuda:1'.
            network_folder: where the module of your own network class lies. Its code is run.
            threads: that torch computes with on the CPU, in this whole process; None: as many as
                it may use cores. A service with several workers on one machine gives each of them
                1.
            full_length: trial scores of whole recordings up to 62.5 s (the defaults of
                `network.*_evaluation_utterance_length_in_samples`), whatever the network's file
                says.
            precision: what the network computes in; scores are float32 numbers in any case. 'tf32'
                and 'bf16' are faster on GPUs that have them, with about 3 and 2 digits. A device
                without TF32 computes in fp32.
            base: the pretrained weights of a file that holds only what was trained, as in
                `front_end.weights`; None: where they were when it was trained.

        Raises:
            AsdfError: the file is no network of ASDF.
            UsageError: the device, folder or precision does not exist, the GPU has no bf16, or the
                network takes one length only and is to score at full length.
        """
        set_threads(threads)
        path = Path(network_path)
        folder = None if network_folder is None else Path(network_folder)
        network, file = read_network(path, folder, None if base is None else os.fspath(base))
        # Here, not only while it scores: threads may score at the same time.
        network.eval()
        self.settings = file.to_sections(folder=folder)
        self.calibration: Calibration | None = read_calibration(file.calibration, path)
        self.device = find_device(device)
        chosen = choose_scoring_precision(precision, self.device)
        rules = _adapt_rules(self.settings.network, network, full_length)
        check_detector(self.settings.sad)
        self._scorer = Scorer(network, rules, chosen, gpu_memory(self.device))
        self.precision = chosen.name
        if chosen.reason:
            LOG.warning("%s", chosen.describe())
        self.length: ScoredLength = self._scorer.length
        assert self.length.max_samples is not None  # settings always have a limit
        self._max_samples = self.length.max_samples
        self._summary = Summary(self._calibrate, self._max_samples)

    def score(self, recording: Any, sample_rate: int | None = None) -> float:
        """Return the trial score of one recording.

        A warning is logged when it says little, or is of the recording's beginning only.

        Args:
            recording: a path; or an array (samples,), (samples, channels) or (channels, samples)
                with full scale 1 if it is of floats, else int16 or int32.
            sample_rate: of an array, in Hz; a file states its own.

        Raises:
            AsdfError: the recording cannot be read, or its score is not a finite number.
        """
        heard = read_trial(recording, sample_rate, self.settings.sad, self._max_samples)
        raw = float(self._scorer.score_waveforms([heard.waveform])[0])
        length = heard.length
        trial = Trial(raw, length.speech, length.recording, is_silent(heard.waveform))
        result = self._summary.describe_trial(0, None, trial)
        if result.remark:
            LOG.warning("%s: %s", recording if is_path(recording) else "an array", result.remark)
        return self._calibrate(raw)

    def score_whole(self, recording: Any, sample_rate: int | None = None) -> Scored:
        """Return the score of all of a recording, however long, with what was heard of it.

        One that is longer than `length.max_samples` is scored in windows of that length, which
        follow each other; the last one ends where the recording ends. Its score is their mean, so
        that every part counts; windows of digital silence do not. `lowest` is the window with the
        lowest score: a spoof that is a part of the recording shows there. A file is decoded once,
        and not held whole unless speech activity detection needs it.

        Args:
            recording, sample_rate: as in `score`.

        Raises:
            AsdfError: as `score`.
        """
        path = Path(recording) if is_path(recording) else None
        return self._score_in_windows(0, path, recording, sample_rate)

    def score_many(
        self,
        paths: Iterable[str | os.PathLike[str]],
        whole: bool = False,
        progress: bool = False,
        is_known: Callable[[int], bool] | None = None,
    ) -> Iterator[Scored]:
        """Score files, those of equal length together; results come as they are ready.

        `index` of a result is that of its file among `paths`. They come in portions of some dozens
        of files, in the order of `paths`, which may be any number. A file that cannot be scored
        gives a result with an `error`, and the rest go on.

        Args:
            whole: return the score of the whole recording, as `score_whole`, not that of the trial.
            progress: show how far a long recording is: a bar on a terminal, else lines in the log.
            is_known: whether the file at an index has a result already: it gives none. The others'
                scores are then the same to the last bit as if nothing were known, which they are
                not where such files are left out of `paths`: in another batch a score has other
                last digits.
        """
        scoring = FileScoring(
            self._scorer,
            self.settings.sad,
            self._max_samples,
            whole,
            self._describe_file,
            partial(self._score_file_in_windows, progress=progress),
            is_known or _is_never_known,
        )
        return scoring.score(Path(path) for path in paths)

    def score_over_time(
        self,
        recording: Any,
        window_s: float = 4.0,
        hop_s: float = 2.0,
        sample_rate: int | None = None,
        progress: bool = False,
    ) -> list[WindowScore]:
        """Return scores of windows of `window_s` seconds that start every `hop_s`.

        Each is scored as a recording by itself. The last window ends where the recording ends; a
        recording that is shorter than a window is one window.

        Args:
            recording, sample_rate: as in `score`.
            window_s, hop_s: seconds.
            progress: show how far a file is: a bar on a terminal, else lines in the log.

        Raises:
            AsdfError: as `score`; windows or hops that leave parts out.
        """
        window, hop = in_samples(window_s, hop_s, self._max_samples)
        cut = cut_windows(read_in_blocks(recording, sample_rate, window), window, hop)
        windows = self._score_windows(cut, window, self.settings.sad)
        if progress and is_path(recording):
            path = Path(recording)
            count = count_windows(audio_length(path), window, hop)
            windows = _track_windows(windows, path, count)
        return [self._summary.describe_window(window) for window in windows]

    def _score_windows(
        self, cut: Iterator[Cut], length: int, sad: SpeechActivity
    ) -> Iterator[Window]:
        """Score windows of up to `length` samples, some at a time.

        The network hears what `sad` leaves of each by itself.
        """
        together = max(1, _HELD_SAMPLES // length)
        while group := list(islice(cut, together)):
            heard = [cut_to_speech(window.waveform, sad) for window in group]
            scores = self._scorer.score_waveforms(heard).tolist()
            for window, score in zip(group, scores, strict=True):
                end = window.start + len(window.waveform)
                yield Window(window.start, end, score, is_silent(window.waveform))

    def _score_in_windows(
        self,
        index: int,
        path: Path | None,
        recording: Any,
        sample_rate: int | None = None,
        track_windows: Callable[[Iterator[Window]], Iterator[Window]] = iter,
    ) -> Scored:
        length = self._max_samples
        sad = self.settings.sad
        total = None
        if needs_whole_recording(sad):
            # Whether a frame is speech depends on the loudest one, which may be the last. So speech
            # is detected before the windows, and in none of them again.
            waveform = read_whole(recording, sample_rate)
            total = len(waveform)
            blocks: Iterable[np.ndarray] = [cut_to_speech(waveform, sad)]
        else:
            blocks = read_in_blocks(recording, sample_rate, length)
        cut = cut_windows(blocks, length, length)
        windows = track_windows(self._score_windows(cut, length, _NO_DETECTION))
        return self._summary.describe_whole(index, path, list(windows), total)

    def _describe_file(self, file: File, raw: float, silent: bool) -> Scored:
        trial = Trial(raw, file.speech, file.total, silent)
        return self._summary.describe_trial(file.index, file.path, trial)

    def _score_file_in_windows(self, file: File, progress: bool) -> Scored:
        if not progress:
            return self._score_in_windows(file.index, file.path, file.path)
        count = count_windows(file.speech, self._max_samples, self._max_samples)
        tracked = partial(_track_windows, path=file.path, count=count)
        return self._score_in_windows(file.index, file.path, file.path, track_windows=tracked)

    def _calibrate(self, raw: float) -> float:
        if not np.isfinite(raw):
            raise AsdfError(
                "the network gives a score that is not a finite number: it has probably diverged."
            )
        if self.calibration is None:
            return float(raw)
        return float(self.calibration.llr(raw))


def _adapt_rules(settings: Network, network: torch.nn.Module, full_length: bool) -> Network:
    """Return the rules of scoring for a detector: nothing is cut, and the limits may be others."""
    rules = replace(settings, max_cut_proportion=0.0)
    if not full_length:
        return rules
    fixed = fixed_samples(network)
    if fixed is not None:
        raise UsageError(
            f"{type(network).__name__} takes recordings of {fixed:,} samples and no others: it "
            "cannot score at full length. Leave that out; a longer recording is then scored in "
            "windows."
        )
    defaults = Network()
    return replace(
        rules,
        min_evaluation_utterance_length_in_samples=(
            defaults.min_evaluation_utterance_length_in_samples
        ),
        max_evaluation_utterance_length_in_samples=(
            defaults.max_evaluation_utterance_length_in_samples
        ),
    )


def _is_never_known(index: int) -> bool:
    return False


def _track_windows(windows: Iterator[Window], path: Path, count: int) -> Iterator[Window]:
    return track(windows, count, f"scoring {printable(path.name)}", unit="windows")
