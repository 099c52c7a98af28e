"""`asdf.Detector`: scores of recordings in any format, rate and length from a network file.

Invariant: the trial score of a recording equals its score as a trial of a list
(`asdf.scoring.score_list`): reading, speech activity detection and scorer are the same, with the
settings of the network's training. Up to rounding, it does not depend on the other recordings of
its batch: no recording is cut to share a batch (`network.max_cut_proportion`). The score of a whole
recording is the mean of the trial scores of its windows, so every part counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from asdf.audio import cut_to_speech
from asdf.audio.speech_check import speech_finder
from asdf.errors import UsageError
from asdf.metrics.calibration import Calibration
from asdf.networks.extras import EMBEDDING
from asdf.ports import load, provided
from asdf.runs.log import LOG
from asdf.runs.seeds import generator
from asdf.scoring.columns import Request, make_columns
from asdf.scoring.many import ManyRecordings
from asdf.scoring.opened_network import OpenedNetwork, Options, restore
from asdf.scoring.pipeline import NO_DETECTION, Pipeline, Stream
from asdf.scoring.recordings import Recording, as_recording, as_waveform, check_rate
from asdf.scoring.scored import Score, Scored, WindowScore, as_score
from asdf.scoring.speakers import SpeakerScored, conclude_speaker, find_speakers, speaker_recordings
from asdf.scoring.whole_recording import Summary, count_windows, cut_windows, in_samples
from asdf.segments import Speaker
from asdf.settings.fields import MAX_THREADS
from asdf.settings.sections import Audio
from asdf.shipped import SMALL, is_shipped
from asdf.text import AnyPath
from asdf.trials.how_scored import ScoredLength

if TYPE_CHECKING:
    import torch

GRAPH = "graph"
"""Engine of a network that is computed without torch."""

# An unusual rate, so that the resampler is warm too.
_WARMING_RATE = 8000
# torch's compilers profile the first runs.
_WARMING_PASSES = 2


class Detector:
    """A network that tells bona fide speech from spoofs.

        detector = asdf.Detector("network.pt")
        detector.score("call.mp3")             # a file, of any length
        detector.score(content)                # the bytes of one, or a file object
        detector.score(samples, 44100)         # or an array
        detector.score_trial("trial.flac")     # what a corpus's protocol scores of it

    A higher score means more bona fide. It is the network's bona fide logit, which is a cosine for
    some losses (or the difference of its logits, or a natural-log likelihood ratio, according to
    `network.score`); for a calibrated network it is the natural-log likelihood ratio.

    A *trial score* covers the part of a recording that the corpus protocol of the network defines:
    short recordings are repeated up to `length.min_samples`, long ones cut at `length.max_samples`.
    The *score of a whole recording* that is longer is the mean over windows of that length.

    Attributes:
        source: Path of the network, or its repository on the hub with the commit.
        settings: Settings that the network was trained with; for a fused system, those of its first
            network.
        calibration: Calibration of the network file, or None.
        threshold: Lowest score of a recording that is called bona fide; None: no verdicts.
        precision: Precision of the network on that device: 'fp32', 'tf32' or 'bf16'.
        engine: Engine of the network: 'graph', 'packed' or 'plain'.
        threads: Number of threads used on a CPU.
        speech_check: Detector of speech in recordings; 'off' without a threshold.
        remark: Sentence on a limitation of all scores, such as training on the demo corpus; ''.
        length: Length of the part of a recording that a trial score covers.
        window_samples: Length of a window of `score_whole`, in samples: `length.max_samples`; for a
            fused system, the smallest of its networks.
        source_classes: Classes that the network traces, listed in `sources` of its results; None
            for a network that does not trace.

    Examples:
        >>> from asdf import Detector
        >>> detector = Detector("network.pt", device="cpu")
        >>> score = detector.score("call.wav")
        >>> score.seconds, score.verdict is None  # without a threshold there are no verdicts
        (2.0, True)
        >>> for scored in detector.score_many(["call.wav", "missing.wav"]):
        ...     print(scored.name, scored.score == score, bool(scored.error))
        missing.wav False True
        call.wav True False
    """

    def __init__(  # noqa: PLR0913
        self,
        network_path: AnyPath = SMALL,
        device: str | torch.device = "auto",
        network_folder: AnyPath | None = None,
        threads: int | None = None,
        full_length: bool = False,
        precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto",
        base: AnyPath | None = None,
        *,
        threshold: float | None = None,
        max_seconds: float | None = None,
        memory_limit: int | None = None,
        engine: Literal["auto", "graph", "packed", "plain"] = "auto",
        parts: bool = True,
        speech_check: Literal["built-in", "silero", "off"] = "built-in",
        columns: Sequence[str] = (),
    ) -> None:
        """Build the network from its file; no code in the file is executed.

        Args:
            network_path: File or folder of ASDF; file of a fused system; repository on the hub,
                'hub:ORG/NAME' or 'hub:ORG/NAME@REVISION', which is downloaded once; or 'small', the
                detector that is part of the installation, which is weak and not evidence by itself.
                `python -m asdf detectors` lists published ones.
            device: Device the network runs on: 'auto' (a GPU if there is one, but the CPU for a
                graph), 'cpu', 'cuda', 'cuda:1'.
            network_folder: Folder with the module of your own network class. Its code is executed.
            threads: Number of threads of torch on the CPU, in this whole process; None: while it
                scores, 1 for a network of fewer than 10 million parameters, else the number of
                available cores. A service with several workers on one machine gives each of them 1.
            full_length: Whether trial scores cover whole recordings up to 62.5 s (the defaults of
                `network.*_evaluation_utterance_length_in_samples`), overriding the network's file.
            precision: Precision of the network; scores are float32 numbers in any case. 'auto':
                'tf32' on a GPU that has it, else 'fp32'. 'tf32' and 'bf16' are faster on GPUs that
                have them, with about 3 and 2 digits; 'bf16' also on CPUs with AVX512_BF16 or AMX. A
                device without TF32 computes in fp32.
            base: Pretrained weights for a file that holds only the trained weights, as in
                `front_end.weights`; None: the location used in training.
            threshold: Lowest score of the verdict 'bona fide'; None: the threshold of the
                calibration, if any.
            max_seconds: Maximum length of a recording, in seconds. Longer ones are refused, before
                decoding if their header states the length; None: no limit.
            memory_limit: Maximum size of the samples of a recording in memory, in bytes. A
                recording that needs more is refused; long files are read in parts and need less.
                None: no limit.
            engine: Engine of the network. 'plain': as in training; 'packed': weights laid out for
                a CPU, which is faster; 'graph': of the shipped detector, computed by ONNX Runtime
                without torch; 'auto': the last of these that there is. In fp32 their scores differ
                by at most 1e-5.
            parts: Whether recordings that are scored whole are searched for spoofed parts, if there
                is a threshold (see `score_whole`).
            speech_check: Detector of speech, used if there is a threshold; a recording without
                speech gets no verdict. 'built-in': energy, modulation and voicing; 'silero': the
                network of the package `silero-vad`; 'off': none. Trials of `score_many` are not
                checked, because a protocol judges every trial.
            columns: Class paths of columns of your own ('my_column.Margin'), whose values results
                have too (docs/your_own.md). Their code is executed.

        Raises:
            AsdfError: the file is not a network of ASDF.
            UsageError: the device, folder or precision does not exist, the GPU has no bf16, a
                network with a fixed input length is to score at full length, or the threshold or a
                limit is not a valid number.
        """
        options = Options(
            device,
            network_folder,
            threads,
            full_length,
            precision,
            base,
            threshold,
            max_seconds,
            memory_limit,
            engine,
            parts,
            speech_check,
            tuple(columns),
        )
        self._process = os.getpid()
        self._opened = opened = open_network(network_path, options)
        self.source = opened.source
        self._limits = options.limits
        self._scorer = opened.scorer
        self.settings = opened.settings
        self.calibration: Calibration | None = opened.calibration
        self.threshold = None if self.calibration is None else self.calibration.threshold
        if threshold is not None:
            self.threshold = float(threshold)
        self.precision = opened.scorer.precision
        self.engine = opened.scorer.engine
        self.threads = opened.threads
        self.remark = opened.remark
        self.length: ScoredLength = opened.scorer.length
        self.window_samples = opened.scorer.window_samples
        self.source_classes = getattr(opened.scorer.extras.get("sources"), "classes", None)
        self._pipeline = self._make_pipeline(opened, options)
        self.speech_check = "off" if self._pipeline.find_speech is None else speech_check
        self._reference: np.ndarray | None = None

    def _make_pipeline(self, opened: OpenedNetwork, options: Options) -> Pipeline:
        request = Request(
            self.calibration,
            self.threshold,
            options.parts,
            self.length,
            self.window_samples,
            opened.scorer.extras,
            self.source,
        )
        columns = make_columns(request, options.columns)
        # One forward pass gives both the score and what columns need.
        wanted = tuple(dict.fromkeys(key for column in columns for key in column.needs))
        summary = Summary(self._scorer, self.calibration, self.threshold, columns, wanted)
        # Without verdicts nothing depends on speech.
        find_speech = None if self.threshold is None else speech_finder(options.speech_check)
        return Pipeline(self._scorer, self.settings.sad, summary, wanted, find_speech)

    @property
    def device(self) -> torch.device:
        """The device that the network runs on."""
        return self._scorer.device

    @property
    def sample_rate(self) -> int:
        """Sampling rate of the network, in Hz."""
        return self._scorer.audio.sample_rate

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments, besides the network, of a detector that gives identical scores."""
        return dict(self._opened.arguments)

    def __repr__(self) -> str:
        """Name the network, the device and the threshold of verdicts."""
        threshold = "none" if self.threshold is None else f"{self.threshold:g}"
        return f"<Detector {self.source!r} on {self.device}, threshold {threshold}>"

    def __call__(self, recording: Any, sample_rate: int | None = None) -> Score:
        """Return the score of a whole recording. Arguments and errors are those of `score`."""
        return self.score(recording, sample_rate)

    def with_reference(self, reference: Any, sample_rate: int | None = None) -> Detector:
        """Return a detector whose network hears a reference beside everything that it scores.

        Without one, a network that takes references hears zeros; other networks ignore it.

        Args:
            reference: Recording, as in `score`.
            sample_rate: Sampling rate of samples, in Hz; a file states its own.

        Raises:
            UsageError: it is not a recording.
            AsdfError: it cannot be read, exceeds the limits, or contains no speech.
        """
        named = self._take(reference, sample_rate)
        waveform, _ = named.read_beginning(self.settings.sad, self._scorer.trial_samples)
        # copy() would read the network's file again.
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        # The same way as a copy from a pickle gets its reference.
        bound.__setstate__(waveform)
        return bound

    def __setstate__(self, waveform: np.ndarray) -> None:
        """Set the reference, (T,) at the network's rate; pickle calls this for a copy."""
        self._reference = waveform
        self._scorer = self._scorer.with_reference(waveform)
        self._pipeline = replace(self._pipeline, scorer=self._scorer)

    @property
    def takes_references(self) -> bool:
        """Whether the network takes a reference beside each recording."""
        return self._scorer.takes_references

    @property
    def pipeline(self) -> Pipeline:
        """Scorer of recordings in memory, for callers that form their own batches."""
        _check_process(self._process)
        return self._pipeline

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the network's path and digest, how the detector was made, and its reference."""
        made = restore, (type(self), *self._opened.pickled())
        # pickle passes a third element to __setstate__.
        return made if self._reference is None else (*made, self._reference)

    def warm_up(self, seconds: float = 4.0) -> Detector:
        """Score noise of `seconds` a few times, to pay one-off costs in advance; return `self`.

        The first recording of a length costs extra once: tables of the resampler, kernels that are
        chosen or built for a size.

        Raises:
            UsageError: `seconds` is not a positive number.
            AsdfError: the noise does not fit into memory.
        """
        _check_process(self._process)
        if not 0 < seconds < math.inf:
            raise UsageError(f"warm_up: {seconds} s: give a positive number.")
        rng = generator(0, "warm up")
        noise = rng.normal(0, 0.1, round(seconds * _WARMING_RATE) or 1)
        audio = Audio(self.sample_rate)
        waveform = self._scorer.as_heard(as_waveform(noise, _WARMING_RATE, None, audio))
        for _ in range(_WARMING_PASSES):
            heard = cut_to_speech(waveform, self.settings.sad, audio.sample_rate)
            self._scorer.score_waveforms([heard])
        return self

    def stream(self, sample_rate: int, window_s: float = 4.0, hop_s: float = 1.0) -> Stream:
        """Return a stream, which scores a recording in windows while it arrives.

        Args:
            sample_rate: Sampling rate of the stream, in Hz.
            window_s, hop_s: Length of a window and distance between window starts, in seconds, as
                in `score_over_time`.

        Raises:
            UsageError: the rate is not valid, the network does not hear such windows whole, or the
                hops leave gaps.
        """
        _check_process(self._process)
        window, hop = in_samples(window_s, hop_s, self.window_samples, self.sample_rate)
        return Stream(self._pipeline, check_rate(sample_rate, "a stream"), window, hop)

    def score(
        self,
        recording: Any,
        sample_rate: int | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
    ) -> Score:
        """Return the score of a whole recording as a number with further attributes.

        It is that of `score_whole` and of the command `score`, with the same verdict and parts. A
        warning is logged if the score says little.

        Args:
            recording: Path; content of a file as bytes, bytearray or memoryview; file object opened
                in binary mode, which is read from its position to its end; samples, as an array or
                tensor (samples,), (samples, channels) or (channels, samples) with full scale 1 for
                floats, else int16 or int32; or a pair (samples, sample_rate).
            sample_rate: Sampling rate of samples, in Hz; not needed for files.
            embedding: Whether the result includes the network's embedding.
            frames: Whether the result includes the scores of the frames of the whole recording
                (`FrameScores`); requires a frame-level head.

        Raises:
            UsageError: it is not a recording, or the network returns no embeddings or frames.
            AsdfError: the recording cannot be read or exceeds the limits, or its score is not a
                finite number.
        """
        named = self._take(recording, sample_rate)
        return _warned(self._pipeline_for(embedding, frames).score_whole(named))

    def score_trial(
        self,
        recording: Any,
        sample_rate: int | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
    ) -> Score:
        """Return the trial score of a recording: of the part that the network's protocol uses.

        A warning is logged if the score says little, or covers only the beginning of the recording,
        which is not searched for parts. Arguments and errors are those of `score`.
        """
        named = self._take(recording, sample_rate)
        return _warned(self._pipeline_for(embedding, frames).score_trial(named))

    def score_whole(
        self,
        recording: Any,
        sample_rate: int | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
    ) -> Scored:
        """Return the score of a whole recording of any length, with what is known of it.

        A recording longer than `length.max_samples` is scored in consecutive windows of that
        length; the last one ends where the recording ends. The score is their mean, so every part
        counts, except windows of digital silence. `lowest` is the window with the lowest score. A
        file is not held in memory as a whole unless speech activity detection needs it.

        A detector with a threshold also searches long recordings for parts that sound spoofed by
        themselves. It scores windows of 4 s (or the fixed input length of the network), half a
        window apart, in recordings longer than two of them; windows below the threshold form the
        result's `parts`. The score does not change; the verdict of a recording that scores as bona
        fide but contains such parts is 'mixed'. A recording without speech has no verdict, see
        `speech_check`.

        Args:
            recording, sample_rate: Recording and its rate, as in `score`.
            embedding: Whether the result includes the mean embedding of the windows.
            frames: Whether the result includes frame scores, as in `score`; the windows overlap, so
                every frame is scored with its context.

        Raises:
            UsageError, AsdfError: as `score`.
        """
        named = self._take(recording, sample_rate)
        return self._pipeline_for(embedding, frames).score_whole(named)

    def score_many(
        self,
        recordings: Iterable[Any],
        whole: bool = False,
        progress: bool = False,
        is_known: Callable[[int], bool] | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
    ) -> Iterator[Scored]:
        """Score recordings, batched by equal length; yield results as they are ready.

        `index` of a result is the index of its recording. Results come in portions of a few dozen,
        in the order of `recordings`, which may be of any number. A recording that cannot be scored
        gives a result with an `error`, and the others continue.

        Args:
            recordings: Paths, contents, file objects, or pairs (samples, sample_rate), in any
                mixture.
            whole: Whether to return scores of whole recordings, as `score_whole`, instead of trial
                scores.
            progress: Whether to show the progress in a long recording: a bar on a terminal, else
                lines in the log.
            is_known: Function that returns whether the recording at an index already has a result,
                and so yields none. The scores of the others are then identical to the last bit to
                those of a full run; leaving known recordings out would change the batches, and with
                them the last digits.
            embedding: Whether results include the networks' embeddings.
            frames: Whether results include frame scores, as in `score`.

        Raises:
            UsageError: one of them cannot be scored at all; the message names its index and type.
        """
        _check_process(self._process)
        pipeline = self._pipeline_for(embedding, frames)
        # Refused once, here: later, it would be the failure of each single recording.
        pipeline.check()
        if not whole:
            # A protocol judges every trial.
            pipeline = replace(pipeline, find_speech=None)
        if is_known is None:
            is_known = set[int]().__contains__
        many = ManyRecordings(pipeline, whole, progress, self._limits, is_known)
        return many.score(recordings)

    def score_speakers(
        self, recording: Any, turns: AnyPath | Sequence[Speaker], sample_rate: int | None = None
    ) -> list[SpeakerScored]:
        """Return a score per speaker of a conversation.

        Each speaker is scored as `score_whole` scores a recording that joins the stretches in which
        nobody else speaks. Stretches under a quarter of a second are left out; less than 2 s in
        total gets no verdict.

        Args:
            recording, sample_rate: Recording and its rate, as in `score`.
            turns: Path of an RTTM with the turns of this recording, which it names without folder
                and suffix; or the speakers (`asdf.segments.speakers_alone`).

        Returns:
            Scores in the order of the speakers, with times in the conversation; a speaker who never
            speaks alone gets an `error`.

        Raises:
            UsageError, AsdfError: as `score`; the RTTM cannot be read, or is of other recordings.
        """
        named = self._take(recording, sample_rate)
        if isinstance(turns, str | os.PathLike):
            turns = find_speakers(turns, named.path)
        parts = speaker_recordings(named, turns)
        scored = []
        # score_many yields batches of equal length as they are ready.
        for result in sorted(self.score_many(parts, whole=True), key=attrgetter("index")):
            speaker = parts[result.index].speaker
            concluded = replace(conclude_speaker(result, speaker), name=named.name)
            scored.append(SpeakerScored(speaker, concluded))
        return scored

    def score_over_time(
        self,
        recording: Any,
        window_s: float = 4.0,
        hop_s: float = 2.0,
        sample_rate: int | None = None,
        progress: bool = False,
    ) -> list[WindowScore]:
        """Return scores of windows of `window_s` seconds that start every `hop_s`.

        Each window is scored as a recording by itself. The last window ends where the recording
        ends; a recording shorter than a window is one window.

        Args:
            recording, sample_rate: Recording and its rate, as in `score`.
            window_s, hop_s: Length of a window and distance between window starts, in seconds.
            progress: Whether to show the progress: a bar on a terminal, else lines in the log.

        Raises:
            UsageError, AsdfError: as `score`; or the windows or hops leave gaps.
        """
        window, hop = in_samples(window_s, hop_s, self.window_samples, self.sample_rate)
        named = self._take(recording, sample_rate)
        cut = cut_windows(named.read_in_blocks(window), window, hop)
        count = 0
        if progress:
            count = count_windows(named.measure(NO_DETECTION).recording, window, hop)
        windows = self._pipeline.score_windows(cut, window, self.settings.sad, named, count)
        return [self._pipeline.summary.score_window(window) for window in windows]

    def _pipeline_for(self, embedding: bool, frames: bool) -> Pipeline:
        requested = {EMBEDDING: embedding, "frames": frames}
        wanted = tuple(key for key, is_requested in requested.items() if is_requested)
        summary = self._pipeline.summary
        # What was asked for is shown, even if the summary would have computed it for itself alone.
        hidden = tuple(key for key in summary.hidden if key not in wanted)
        summary = replace(summary, hidden=hidden)
        return replace(self._pipeline, wanted=(*hidden, *wanted), summary=summary)

    def _take(self, recording: Any, sample_rate: int | None) -> Recording:
        _check_process(self._process)
        return as_recording(recording, sample_rate, None, self._limits, self._scorer.audio)


def _warned(result: Scored) -> Score:
    if result.remark:
        LOG.warning("%s: %s", result.name, result.remark)
    return as_score(result)


def open_network(named: AnyPath, options: Options) -> OpenedNetwork:
    """Open a network by its path or its repository on the hub, or a fused system.

    Raises:
        AsdfError: the network cannot be downloaded, or is not a detector; a network of a fused
            system is missing or was changed.
        UsageError: an option is not valid, or not supported on this machine.
    """
    if options.threads is not None and not 1 <= options.threads <= MAX_THREADS:
        raise UsageError(f"threads = {options.threads}: give 1 to {MAX_THREADS}, or leave it out.")
    for name in ("max_seconds", "memory_limit"):
        limit = getattr(options, name)
        # `limit <= 0` would let NaN pass.
        if limit is not None and not limit > 0:
            raise UsageError(f"{name} = {limit!r}: give a positive number, or leave it out.")
    if options.threshold is not None and not math.isfinite(options.threshold):
        raise UsageError(
            f"threshold = {options.threshold:g}: every recording would get the same verdict. Give "
            "a finite number."
        )
    opened: OpenedNetwork | None = None
    opener = provided("ENGINES").get(GRAPH)
    if opener and is_shipped(named) and options.engine in ("auto", GRAPH):
        opened = load(opener)(options)
    if opened is None and options.engine == GRAPH:
        raise UsageError(
            f"engine '{GRAPH}' computes the detector '{SMALL}' on a CPU, in fp32, by the package "
            "onnxruntime (pip install 'asdf-antispoofing[onnx]'). Leave the engine out."
        )
    if opened is None:
        # It imports torch.
        from asdf.scoring.network_scorers import read_scorer

        opened = read_scorer(named, options)
    remark = opened.remark
    if opened.calibration is not None and not opened.calibration.is_clear(math.inf):
        doubt = (
            "Its calibration does not support ratios above 3 for both classes, so all of its "
            "verdicts are 'undecided'."
        )
        LOG.warning("%s: %s", opened.source, doubt)
        remark = f"{remark} {doubt}".strip()
    # The values chosen for 'auto' and None, so that a copy elsewhere gives identical scores.
    folder = options.network_folder
    arguments = {
        **vars(options),
        "device": opened.device,
        "network_folder": None if folder is None else str(Path(folder).absolute()),
        "threads": opened.threads,
        "base": None if options.base is None else os.fspath(options.base),
        "precision": opened.scorer.precision,
        "engine": opened.scorer.engine,
    }
    return replace(opened, path=opened.path.absolute(), remark=remark, arguments=arguments)


def _check_process(made_in: int) -> None:
    """Raise a UsageError unless this is the process in which a detector was made."""
    if made_in != os.getpid():
        raise UsageError(
            f"this detector was made in process {made_in}, of which this process ({os.getpid()}) "
            "is a fork: torch would wait forever for threads that a fork does not copy. Make the "
            "detector in this process, or start processes with 'spawn' or 'forkserver' "
            "(multiprocessing.get_context('spawn')), and pass it to them: it can be pickled."
        )
