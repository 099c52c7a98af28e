"""`asdf.Detector`: scores of recordings, of any format, rate and length, from a network file alone.

Invariant: a recording's trial score is the one that it gets as a trial of a list (`asdf.scoring.
score_list`): the same reading, speech activity detection and scorer, from the settings that the
network was trained with. It does not depend on the recordings that it is scored with, up to
rounding; so none is cut to share a batch (`network.max_cut_proportion`). The score of a whole
recording is the mean of the trial scores of its windows, so that all of it counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from asdf.audio.sources import Limits
from asdf.audio.speech_activity import check_detector
from asdf.distributed.resources import gpu_memory
from asdf.errors import UsageError
from asdf.interchange import read_network
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.networks import fixed_samples
from asdf.runs.log import LOG
from asdf.scoring.device import find_device, set_threads
from asdf.scoring.in_windows import NO_DETECTION, WindowScoring, track_windows
from asdf.scoring.many import FileScoring
from asdf.scoring.pieces import PieceScoring
from asdf.scoring.precision import choose_scoring_precision
from asdf.scoring.recordings import as_recording
from asdf.scoring.scored import Score, Scored, WindowScore
from asdf.scoring.scorer import Scorer
from asdf.scoring.whole_recording import Summary, Trial, as_result, is_silent
from asdf.scoring.windows import count_windows, cut_windows, in_samples
from asdf.settings.sections import Network
from asdf.trials.scored_length import ScoredLength


class Detector:
    """A network that tells bona fide speech from spoofs.

        detector = asdf.Detector("network.pt")
        detector.score("call.mp3")             # a file
        detector.score(content)                # the bytes of one, or a file object
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
        threshold: from which score on a recording is called bona fide; None: no verdicts.
        device: the `torch.device` that it computes on.
        precision: what it computes in on that device: 'fp32', 'tf32' or 'bf16'.
        length: how much of a recording a trial score is of.
    """

    def __init__(  # noqa: PLR0913
        self,
        network_path: str | os.PathLike[str],
        device: str | torch.device = "auto",
        network_folder: str | os.PathLike[str] | None = None,
        threads: int | None = None,
        full_length: bool = False,
        precision: Literal["fp32", "tf32", "bf16"] = "fp32",
        base: str | os.PathLike[str] | None = None,
        *,
        threshold: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
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
            threshold: a score is 'bona fide' from here on; None: the calibration's, if any.
            max_seconds: longer recordings are refused, before they are decoded where their header
                states it; None: any.
            memory_limit: bytes of a recording's samples that are in memory together. One that
                needs more is refused; long files are read in parts, and need less. None: any.

        Raises:
            AsdfError: the file is no network of ASDF.
            UsageError: the device, folder or precision does not exist, the GPU has no bf16, the
                network takes one length only and is to score at full length, or the threshold or a
                limit is no such number.
        """
        self._limits = _check_limits(max_seconds, memory_limit)
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
        self.threshold = _choose_threshold(threshold, self.calibration)
        self._summary = Summary(self.calibration, self.threshold, self._max_samples)
        self._windows = WindowScoring(
            self._scorer, self.settings.sad, self._max_samples, self._summary
        )

    @property
    def pieces(self) -> PieceScoring:
        """What scores recordings that are in memory in whatever batches a service forms."""
        return PieceScoring(self._scorer, self._summary, self.settings.sad, self._max_samples)

    def score(
        self, recording: Any, sample_rate: int | None = None, *, embedding: bool = False
    ) -> Score:
        """Return the trial score of one recording: a number, with what is known of it.

        A warning is logged when it says little, or is of the recording's beginning only.

        Args:
            recording: a path; the content of a file as bytes, bytearray or memoryview; a file
                object, opened for bytes, which is read from where it is to its end; samples, an
                array or tensor (samples,), (samples, channels) or (channels, samples) with full
                scale 1 if it is of floats, else int16 or int32; or a pair (samples, sample_rate).
            sample_rate: of samples, in Hz; a file states its own.
            embedding: the result has the network's embedding too.

        Raises:
            UsageError: it is no recording, or the network returns no embeddings.
            AsdfError: the recording cannot be read, is beyond the limits, or its score is not a
                finite number.
        """
        named = as_recording(recording, sample_rate, None, self._limits)
        heard = named.read_beginning(self.settings.sad, self._max_samples)
        output = self._scorer.score_waveforms([heard.waveform], embedding)
        length = heard.length
        trial = Trial(
            float(output.scores[0]),
            length.speech,
            length.recording,
            is_silent(heard.waveform),
            output.embedding(0),
        )
        score = self._summary.describe_trial(trial)
        if score.remark:
            LOG.warning("%s: %s", named.name, score.remark)
        return score

    def score_whole(
        self, recording: Any, sample_rate: int | None = None, *, embedding: bool = False
    ) -> Scored:
        """Return the score of all of a recording, however long, with what was heard of it.

        One that is longer than `length.max_samples` is scored in windows of that length, which
        follow each other; the last one ends where the recording ends. Its score is their mean, so
        that every part counts; windows of digital silence do not. `lowest` is the window with the
        lowest score: a spoof that is a part of the recording shows there. A file is decoded once,
        and not held whole unless speech activity detection needs it.

        Args:
            recording, sample_rate: as in `score`.
            embedding: the result has the mean of the windows' embeddings too.

        Raises:
            UsageError, AsdfError: as `score`.
        """
        named = as_recording(recording, sample_rate, None, self._limits)
        return as_result(named, self._windows.score_whole(named, embedding))

    def score_many(
        self,
        recordings: Iterable[Any],
        whole: bool = False,
        progress: bool = False,
        is_known: Callable[[int], bool] | None = None,
        *,
        embedding: bool = False,
    ) -> Iterator[Scored]:
        """Score recordings, those of equal length together; results come as they are ready.

        `index` of a result is that of its recording. They come in portions of some dozens, in the
        order of `recordings`, which may be any number. A recording that cannot be scored gives a
        result with an `error`, and the rest go on.

        Args:
            recordings: paths, contents, file objects, or pairs (samples, sample_rate), mixed.
            whole: return the score of the whole recording, as `score_whole`, not that of the trial.
            progress: show how far a long recording is: a bar on a terminal, else lines in the log.
            is_known: whether the recording at an index has a result already: it gives none. The
                others' scores are then the same to the last bit as if nothing were known, which
                they are not where such recordings are left out: in another batch a score has other
                last digits.
            embedding: results have the networks' embeddings too.

        Raises:
            UsageError: one of them is nothing that can be scored; names its index and type.
        """
        scoring = FileScoring(
            self._windows, whole, embedding, progress, self._limits, is_known or _is_never_known
        )
        return scoring.score(recordings)

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
            progress: show how far it is: a bar on a terminal, else lines in the log.

        Raises:
            UsageError, AsdfError: as `score`; windows or hops that leave parts out.
        """
        window, hop = in_samples(window_s, hop_s, self._max_samples)
        named = as_recording(recording, sample_rate, None, self._limits)
        cut = cut_windows(named.read_in_blocks(window), window, hop)
        windows = self._windows.score_windows(cut, window, self.settings.sad)
        if progress:
            count = count_windows(named.measure(NO_DETECTION).recording, window, hop)
            windows = track_windows(windows, named, count)
        return [self._summary.describe_window(window) for window in windows]


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


def _choose_threshold(threshold: float | None, calibration: Calibration | None) -> float | None:
    """Return the threshold of verdicts: the requested one, else the calibration's; None: none."""
    if threshold is None:
        return None if calibration is None else calibration.threshold
    if not math.isfinite(threshold):
        raise UsageError(
            f"threshold = {threshold:g}: every recording would get the same verdict. Give a finite "
            "number."
        )
    return float(threshold)


def _check_limits(max_seconds: float | None, memory_limit: int | None) -> Limits:
    for name, limit in (("max_seconds", max_seconds), ("memory_limit", memory_limit)):
        # Not `limit <= 0`: of NaN that is False too.
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} = {limit!r}: give a positive number, or leave it out.")
    return Limits(max_seconds, memory_limit)


def _is_never_known(index: int) -> bool:
    return False
