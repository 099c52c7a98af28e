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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import torch

from asdf.audio import cut_to_speech
from asdf.audio.recording_sources import Limits
from asdf.audio.speech_check import speech_finder
from asdf.errors import UsageError
from asdf.metrics.calibration import Calibration
from asdf.metrics.home import read_home
from asdf.networks.extras import EMBEDDING
from asdf.runs.log import LOG
from asdf.runs.seeds import generator
from asdf.scoring.computing import check_process
from asdf.scoring.detector_copies import restore
from asdf.scoring.hearing import NO_DETECTION, Hearing, track_windows
from asdf.scoring.many import ManyRecordings
from asdf.scoring.network_opening import OpenedNetwork, Options, open_network
from asdf.scoring.panel_agreement import MEMBERS
from asdf.scoring.parts import make_search
from asdf.scoring.recordings import Recording, as_recording
from asdf.scoring.scored import Score, Scored, WindowScore
from asdf.scoring.speakers import (
    SpeakerScored,
    conclude_speaker,
    find_speakers,
    speaker_recordings,
)
from asdf.scoring.stream import Stream
from asdf.scoring.waveforms import as_waveform, check_rate
from asdf.scoring.whole_recording import Summary, as_result
from asdf.scoring.window_threshold import read_window_threshold
from asdf.scoring.windows import count_windows, cut_windows, in_samples
from asdf.segments import Speaker
from asdf.settings.sections import Audio
from asdf.shipped import SMALL
from asdf.text import AnyPath
from asdf.trials.how_scored import ScoredLength
from asdf.watermarks import Watermark, WatermarkSearch, open_search, read_marks

# Any other than the usual ones, so that resampling is warm too.
_WARMING_RATE = 8000
# torch's compilers watch the first runs.
_WARMING_PASSES = 2


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
        source: where the network is from: the path, or the repository of the hub with its commit.
        settings: those that the network was trained with; of a fused system, its first network.
        calibration: Calibration of the network file, or None.
        threshold: from which score on a recording is called bona fide; None: no verdicts.
        device: the `torch.device` that it computes on.
        precision: Precision that it computes in on that device: 'fp32', 'tf32' or 'bf16'.
        engine: Way of computing: 'packed', with weights laid out for a CPU, or 'plain'.
        threads: Number of threads that it computes with on a CPU.
        speech_check: What looks for speech in recordings; 'off' without a threshold.
        remark: Sentence on what limits all of its scores, as a training on the demo corpus; ''.
        length: Part of a recording that a trial score is of.
        window_samples: Length of a window of `score_whole`, in samples: `length.max_samples`; of a
            fused system the smallest of its networks'.
        source_classes: Classes that the network traces, as `sources` of its results has them; None:
            none.
        panel: Members of a panel of detectors, whose verdicts `agreement` of its results has; None:
            it is no panel.

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
        engine: Literal["packed", "plain"] = "packed",
        parts: bool = True,
        speech_check: Literal["built-in", "silero", "off"] = "built-in",
    ) -> None:
        """Build the network from its file; nothing in the file is run.

        Args:
            network_path: a file or folder of ASDF; the file of a fused system; a repository of the
                hub, 'hub:ORG/NAME', 'hub:ORG/NAME@REVISION', which is downloaded once; or 'small',
                the detector that is a part of the installation: weak, and no evidence by itself.
                `python -m asdf detectors` lists published ones.
            device: 'auto': a GPU where there is one; or 'cpu', 'cuda', 'cuda:1'.
            network_folder: where the module of your own network class lies. Its code is run.
            threads: Threads of torch on the CPU, in this whole process; None: 1 for a
                network of fewer than 10 million parameters, else as many as it may use cores, while
                it scores. A service with several workers on one machine gives each of them 1.
            full_length: trial scores of whole recordings up to 62.5 s (the defaults of
                `network.*_evaluation_utterance_length_in_samples`), whatever the network's file
                says.
            precision: Precision of the network; scores are float32 numbers in any case.
                'auto': 'tf32' on a GPU that has it, else 'fp32'. 'tf32' and 'bf16' are faster on
                GPUs that have them, with about 3 and 2 digits; 'bf16' also on CPUs with AVX512_BF16
                or AMX. A device without TF32 computes in fp32.
            base: the pretrained weights of a file that holds only what was trained, as in
                `front_end.weights`; None: where they were when it was trained.
            threshold: a score is 'bona fide' from here on; None: the calibration's, if any.
            max_seconds: longer recordings are refused, before they are decoded where their header
                states it; None: any.
            memory_limit: bytes of a recording's samples that are in memory together. One that
                needs more is refused; long files are read in parts, and need less. None: any.
            engine: 'packed': on a CPU the weights are laid out for it, which is faster, and in
                fp32 keeps scores to 1e-5; 'plain': as in training.
            parts: whether parts that sound spoofed are searched for in recordings that are scored
                whole, where there is a threshold (see `score_whole`).
            speech_check: detector of speech, where there is a threshold; without speech there is no
                verdict. 'built-in': energy, modulation and voicing; 'silero': the network of the
                package `silero-vad`; 'off': nothing. Trials of `score_many` are not checked: a
                protocol judges each.

        Raises:
            AsdfError: the file is not a network of ASDF.
            UsageError: the device, folder or precision does not exist, the GPU has no bf16, the
                network takes one length only and is to score at full length, or the threshold or a
                limit is no such number.
        """
        options = Options(
            device,
            network_folder,
            threads,
            full_length,
            precision,
            base,
            threshold,
            Limits(max_seconds, memory_limit),
            engine,
            parts,
            speech_check,
        )
        self._process = os.getpid()
        opened = open_network(network_path, options)
        self.source = opened.source
        self._origin = opened.origin
        self._limits = options.limits
        self._scorer = opened.scorer
        self.settings = opened.settings
        self.calibration: Calibration | None = opened.calibration
        self.threshold = opened.threshold
        self.device = opened.scorer.device
        self.precision = opened.scorer.precision.name
        self.engine = opened.scorer.engine
        self.threads = opened.threads
        self.remark = opened.remark
        self.length: ScoredLength = opened.scorer.length
        assert self.length.max_samples is not None  # settings always have a limit
        self._trial_samples = self.length.max_samples
        self.window_samples = opened.scorer.window_samples
        self.source_classes = getattr(opened.scorer.extras.get("sources"), "classes", None)
        self.panel = getattr(opened.scorer.extras.get(MEMBERS), "panel", None)
        self._hearing = self._make_hearing(opened, parts, speech_check)
        self.speech_check = "off" if self._hearing.find_speech is None else speech_check
        self._watermarks: WatermarkSearch | None = None
        self._reference: list[np.ndarray] | None = None

    def _make_hearing(self, opened: OpenedNetwork, parts: bool, speech_check: str) -> Hearing:
        search = None
        if parts:
            learnt = None
            calibration = self.calibration
            # Not beside a threshold of the user's.
            if calibration is not None and self.threshold == calibration.threshold:
                learnt = read_window_threshold(calibration.windows)
            search = make_search(self.length, self.window_samples, self.threshold, learnt)
        extras = opened.scorer.extras
        home = read_home(self.calibration.home) if self.calibration else None
        # The pass of the score gives the embedding too.
        wanted = () if home is None else (EMBEDDING,)
        summary = Summary(
            self.calibration,
            self.threshold,
            self._trial_samples,
            extras,
            search,
            home,
            wanted,
            self._scorer.audio.sample_rate,
        )
        # Without verdicts nothing depends on it.
        find_speech = None if self.threshold is None else speech_finder(speech_check)
        return Hearing(self._scorer, self.settings.sad, summary, wanted, find_speech)

    @property
    def sample_rate(self) -> int:
        """Sampling rate of the network, in Hz."""
        return self._scorer.audio.sample_rate

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments, besides the network, of a detector that scores the same bits."""
        return dict(self._origin.options)

    def __repr__(self) -> str:
        """Name the network, the device and the threshold of verdicts."""
        threshold = "none" if self.threshold is None else f"{self.threshold:g}"
        return f"<Detector {self.source!r} on {self.device}, threshold {threshold}>"

    def __call__(self, recording: Any, sample_rate: int | None = None) -> Score:
        """Return the trial score of one recording. Arguments and errors as of `score`."""
        return self.score(recording, sample_rate)

    def with_reference(self, reference: Any, sample_rate: int | None = None) -> Detector:
        """Return a detector of the same network that compares all that it hears with a reference.

        Whatever a detector scores is then compared with it: recordings, windows, streams, speakers.
        The reference is embedded once, here, from as much of it as a trial score hears.

        Args:
            reference: Recording, as of `score`; or a list of several of one speaker, or generator,
                the mean of whose embeddings counts.
            sample_rate: Sampling rate of samples, in Hz; a file states its own.

        Raises:
            UsageError: it is no recording, or the network takes no reference.
            AsdfError: it cannot be read, is beyond the limits, or has no speech in it.
        """
        several = reference if isinstance(reference, list) else [reference]
        if not several:
            raise UsageError("the list of references is empty: give one recording or more.")
        waveforms = []
        for each in several:
            named = self._take(each, sample_rate)
            heard = named.read_beginning(self.settings.sad, self._trial_samples)
            waveforms.append(heard.waveform)
        # Not by copy(), which reads the network's file again.
        compared = object.__new__(type(self))
        compared.__dict__.update(self.__dict__)
        compared.__setstate__(waveforms)
        return compared

    def __setstate__(self, waveforms: list[np.ndarray]) -> None:
        """Compare with a reference from now on; pickle calls this with what a copy needs of it.

        Args:
            waveforms: Waveforms of the reference at the network's rate, (T,) each.
        """
        self._reference = waveforms
        self._scorer = self._scorer.with_reference(waveforms)
        self._hearing = replace(self._hearing, scorer=self._scorer)

    @property
    def reference_s(self) -> float:
        """Seconds that the network heard of the reference; 0 without one."""
        lengths = map(len, self._reference or ())
        return sum(map(self._scorer.scored_samples, lengths)) / self.sample_rate

    @property
    def needs_reference(self) -> bool:
        """Whether the network compares recordings with a reference, and has none yet."""
        return self._scorer.needs_reference

    @property
    def hearing(self) -> Hearing:
        """What scores recordings that are in memory in whatever batches a service forms."""
        check_process(self._process)
        return self._hearing

    def for_fork(self) -> Detector:
        """Return the detector for a process that was forked from the one where it was made.

        Its weights stay in memory that both processes share. The process above must have computed
        with one thread since before the detector was made: of its threads a fork has none, and
        would wait for them without end.

        Raises:
            UsageError: it is on a GPU, or computes with several threads.
        """
        if self.device.type != "cpu" or self.threads != 1:
            raise UsageError(
                f"a detector on {self.device} with {self.threads} threads cannot be used in a fork "
                "of its process: make it with device='cpu', threads=1, or make it in the fork."
            )
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._process = os.getpid()
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the network's path and digest, how the detector was made, and its reference."""
        made = restore, (type(self), self._origin.pickled())
        return made if self._reference is None else (*made, self._reference)

    def warm_up(self, seconds: float = 4.0) -> Detector:
        """Score noise of so many seconds, as often as the first time costs more; return `self`.

        What the first recording of a length costs once (the resampler's tables, kernels that are
        chosen or built for a size) is then paid.

        Raises:
            UsageError: `seconds` is no positive number.
            AsdfError: it does not fit into memory.
        """
        check_process(self._process)
        if not 0 < seconds < math.inf:
            raise UsageError(f"warm_up: {seconds} s: give a positive number.")
        rng = generator(0, "warm up")
        noise = rng.normal(0, 0.1, round(seconds * _WARMING_RATE) or 1)
        audio = Audio(self.sample_rate)
        waveform = self._scorer.as_heard(as_waveform(noise, _WARMING_RATE, None, audio))
        scorer = self._scorer
        if scorer.needs_reference:
            scorer = scorer.with_reference([waveform])
        for _ in range(_WARMING_PASSES):
            heard = cut_to_speech(waveform, self.settings.sad, audio.sample_rate)
            scorer.score_waveforms([heard])
        return self

    def stream(self, sample_rate: int, window_s: float = 4.0, hop_s: float = 1.0) -> Stream:
        """Return a stream, which scores a recording while it comes in, in windows.

        Args:
            sample_rate: Sampling rate of what comes in, in Hz.
            window_s, hop_s: seconds, as of `score_over_time`.

        Raises:
            UsageError: no such rate; windows that the network does not hear whole, or hops that
                leave parts out.
        """
        check_process(self._process)
        window, hop = in_samples(window_s, hop_s, self.window_samples, self.sample_rate)
        return Stream(self._hearing, check_rate(sample_rate, "a stream"), window, hop)

    def score(
        self,
        recording: Any,
        sample_rate: int | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
        rationale: bool = False,
        reference: Any = None,
    ) -> Score:
        """Return the trial score of one recording: a number, with what is known of it.

        A warning is logged when it says little, or is of the recording's beginning only. Where no
        speech is in what is scored there is no verdict, see `speech_check`.

        Args:
            recording: a path; the content of a file as bytes, bytearray or memoryview; a file
                object, opened for bytes, which is read from where it is to its end; samples, an
                array or tensor (samples,), (samples, channels) or (channels, samples) with full
                scale 1 if it is of floats, else int16 or int32; or a pair (samples, sample_rate).
            sample_rate: Sampling rate of samples, in Hz; a file states its own.
            embedding: the result has the network's embedding too.
            frames: the result has the scores of the frames of all of the recording too
                (`FrameScores`), of a network with a frame-level head.
            rationale: the result has a text that the network generates, of an audio language model:
                what a model says, and not evidence.
            reference: Recording that it is compared with, or a list of several, for a network that
                compares recordings (docs/pairs.md); see `with_reference`.

        Raises:
            UsageError: it is no recording, or the network returns no embeddings or frames; or it
                takes no reference, or needs one.
            AsdfError: the recording cannot be read, is beyond the limits, or its score is not a
                finite number.
        """
        if reference is not None:
            compared = self.with_reference(reference)
            return compared.score(
                recording, sample_rate, embedding=embedding, frames=frames, rationale=rationale
            )
        named = self._take(recording, sample_rate)
        score = self._hearing_for(embedding, frames, rationale).score_trial(named)
        if score.remark:
            LOG.warning("%s: %s", named.name, score.remark)
        return score

    def score_whole(
        self,
        recording: Any,
        sample_rate: int | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
        rationale: bool = False,
    ) -> Scored:
        """Return the score of all of a recording, however long, with what was heard of it.

        One that is longer than `length.max_samples` is scored in windows of that length, which
        follow each other; the last one ends where the recording ends. Its score is their mean, so
        that every part counts; windows of digital silence do not. `lowest` is the window with the
        lowest score. A file is not held whole unless speech activity detection needs it.

        Of a detector with a threshold, recordings that are longer than two windows of 4 s, or of
        the one length that the network takes, are searched for parts that sound spoofed by
        themselves: such windows, half a window apart, are scored as well, and those below the
        threshold are the result's `parts`. The score stays what it is; the verdict of a recording
        that scores as bona fide speech, with such parts in it, is 'mixed'. One without speech in it
        has no verdict, see `speech_check`.

        Args:
            recording, sample_rate: Recording and its rate, as of `score`.
            embedding: the result has the mean of the windows' embeddings too.
            frames: as in `score`; they are of windows that overlap, so that none is scored without
                what surrounds it.
            rationale: as in `score`; of the window with the lowest score.

        Raises:
            UsageError, AsdfError: as `score`.
        """
        named = self._take(recording, sample_rate)
        return as_result(named, self._hearing_for(embedding, frames, rationale).score_whole(named))

    def score_many(
        self,
        recordings: Iterable[Any],
        whole: bool = False,
        progress: bool = False,
        is_known: Callable[[int], bool] | None = None,
        *,
        embedding: bool = False,
        frames: bool = False,
        rationale: bool = False,
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
            frames: results have the scores of frames too, as in `score`.
            rationale: results have the text that the network generates, as in `score`.

        Raises:
            UsageError: one of them is nothing that can be scored; names its index and type.
        """
        check_process(self._process)
        hearing = self._hearing_for(embedding, frames, rationale)
        hearing.check()
        if is_known is None:
            is_known = set[int]().__contains__
        many = ManyRecordings(hearing, whole, progress, self._limits, is_known)
        return many.score(recordings)

    def score_speakers(
        self, recording: Any, turns: AnyPath | Sequence[Speaker], sample_rate: int | None = None
    ) -> list[SpeakerScored]:
        """Return a score per speaker of a conversation.

        Each is scored as `score_whole` scores a recording that holds, one after the other, the
        stretches in which nobody else speaks. Stretches under a quarter of a second are left out;
        less than 2 s in all gets no verdict.

        Args:
            recording, sample_rate: Recording and its rate, as of `score`.
            turns: Path of an RTTM with the turns of this recording, which it names without folder
                and suffix; or the speakers (`asdf.segments.speakers_alone`).

        Returns:
            Scores in the order of the speakers, with the times of the conversation; that of a
            speaker who never speaks alone has an `error`.

        Raises:
            UsageError, AsdfError: as `score`; the RTTM cannot be read, or is of other recordings.
        """
        named = self._take(recording, sample_rate)
        if isinstance(turns, str | os.PathLike):
            turns = find_speakers(turns, named.path)
        parts = speaker_recordings(named, turns)
        scored = []
        for result in sorted(self.score_many(parts, whole=True), key=attrgetter("index")):
            speaker = parts[result.index].speaker
            concluded = replace(conclude_speaker(result, speaker), name=named.name)
            scored.append(SpeakerScored(speaker, concluded))
        return scored

    def find_watermarks(self, recording: Any, sample_rate: int | None = None) -> list[Watermark]:
        """Return what each package that finds watermarks says of a recording, apart from its score.

        Those of audioseal, perth and silentcipher that are installed are opened at the first call,
        on the detector's device. A mark that is found says that its maker's program made or marked
        the recording; none that is found says nothing.

        Args:
            recording, sample_rate: Recording and its rate, as of `score`.

        Returns:
            Results in the order of the packages; `found` of one that fails is None.

        Raises:
            UsageError: as `score`; none of the packages can be opened, and why.
            AsdfError: as `score`.
        """
        named = self._take(recording, sample_rate)
        # What cannot be read is no matter of a package.
        named.measure(NO_DETECTION)
        if self._watermarks is None:
            self._watermarks = open_search(str(self.device))
        return read_marks(self._watermarks, named.searched)

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
            recording, sample_rate: Recording and its rate, as of `score`.
            window_s, hop_s: seconds.
            progress: show how far it is: a bar on a terminal, else lines in the log.

        Raises:
            UsageError, AsdfError: as `score`; windows or hops that leave parts out.
        """
        window, hop = in_samples(window_s, hop_s, self.window_samples, self.sample_rate)
        named = self._take(recording, sample_rate)
        cut = cut_windows(named.read_in_blocks(window), window, hop)
        windows = self._hearing.score_windows(cut, window, self.settings.sad)
        if progress:
            count = count_windows(named.measure(NO_DETECTION).recording, window, hop)
            windows = track_windows(windows, named, count)
        return [self._hearing.summary.describe_window(window) for window in windows]

    def _hearing_for(self, embedding: bool, frames: bool, rationale: bool) -> Hearing:
        requested = {EMBEDDING: embedding, "frames": frames, "rationale": rationale}
        wanted = tuple(key for key, is_requested in requested.items() if is_requested)
        summary = self._hearing.summary
        hidden = tuple(key for key in summary.hidden if key not in wanted)
        summary = replace(summary, hidden=hidden)
        return replace(self._hearing, wanted=(*hidden, *wanted), summary=summary)

    def _take(self, recording: Any, sample_rate: int | None) -> Recording:
        check_process(self._process)
        return as_recording(recording, sample_rate, None, self._limits, self._scorer.audio)
