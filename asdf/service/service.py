"""From an upload to the answer: admission, decoding, the shared forward passes, the document.

Invariant: at most `queue` recordings are in memory, counted from before the first byte of one is
read until nothing of it is left, also when its client has gone or a decoder takes too long.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from asdf.data.threads import Threads
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import LOG
from asdf.scoring.detector import Detector
from asdf.scoring.hearing import Hearing, Piece, Pieces
from asdf.scoring.made_by import recording_digest
from asdf.scoring.recordings import as_recording
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.speakers import (
    choose_speakers,
    conclude_speaker,
    speaker_entry,
    speaker_recordings,
)
from asdf.scoring.waveforms import heard_again
from asdf.scoring.windows import count_windows, in_samples
from asdf.segments import Speaker, parse_speakers
from asdf.service.audit_file import AuditFile, audit_entry
from asdf.service.board import Board, Seat
from asdf.service.counts import Counts
from asdf.service.decoding import NAME, Wait, decode_upload, outline, upload_source
from asdf.service.limits import GONE, Refusal, ServiceLimits, for_clients
from asdf.service.questions import Question
from asdf.service.rates import Rates
from asdf.service.served import Served
from asdf.service.shared_passes import SharedPasses
from asdf.service.uploads import Upload
from asdf.trials.text_lines import lines_of
from asdf.watermarks import Watermark, WatermarkSearch, read_marks

Value = TypeVar("Value")
Ending = asyncio.Event
# Noise: enough for any network, and for kernels to be chosen.
_WARM_UP_S = 1
# Name of the turns of speakers in messages.
_RTTM = "rttm"
# What packages print is caught per process, so that two searches would mix.
_SEARCHERS = 1


@dataclass(frozen=True)
class _Decoded:
    """A recording, cut for the network.

    Attributes:
        digests: Digests of the files as they were uploaded, by their keys in answers.
        heard_s: Seconds that are heard of it, by the network and by who searches for watermarks.
        speakers: Speakers of a conversation, each with his or her speech alone; None: nothing.
        hearing: What hears it: the service's, or with the reference that came with it.
    """

    pieces: Pieces
    outline: dict[str, list[float]] | None
    digests: Mapping[str, str]
    heard_s: float = 0.0
    speakers: tuple[tuple[Speaker, Pieces | None], ...] = ()
    hearing: Hearing | None = None

    @property
    def all_pieces(self) -> list[Piece]:
        """Pieces of the recording and of its speakers."""
        pieces = list(self.pieces.all)
        for _, alone in self.speakers:
            pieces += [] if alone is None else alone.all
        return pieces


class Service:
    """A detector that answers requests.

    Attributes:
        limits: Limits of recordings and requests.
        current: Network that requests begin with now.
        counts: Counts for Prometheus.
        rates: Number of requests, and of seconds of audio, that a client may send.
        watermarks: Packages that search for watermarks where a client asks for it; None: none.
        stopping: True where new recordings are refused, since the service is to end.
        draining: True where no connection is taken any more, since other workers take them.
        calls: Calls that are heard now.
    """

    def __init__(
        self,
        detector: Detector,
        network: str,
        limits: ServiceLimits,
        audit: AuditFile | None = None,
        watermarks: WatermarkSearch | None = None,
        seat: Seat | None = None,
        metrics: Path | None = None,
    ) -> None:
        """Start the threads, and warm the network up in the background.

        Args:
            network: Path or name that the detector was opened by.
            audit: Audit file that each verdict is recorded in.
            watermarks: Packages that search for watermarks; None: no client may ask for it.
            seat: Seat of this worker among those of the service; None: there is no other.
            metrics: Folder in which the workers count together; None: there is no other.

        Raises:
            UsageError: a limit leaves nothing to serve.
        """
        limits.check()
        self.limits = limits
        self.counts = Counts(metrics)
        self.seat = seat or Seat(Board(max_connections=limits.connections))
        self.rates = Rates(limits.rate, limits.audio_rate, board=self.seat.board)
        self.stopping = False
        self.draining = False
        self.current = Served(detector, network)
        self.watermarks = watermarks
        self.audit = audit
        self.calls: set[Ending] = set()
        self._readers = Threads(limits.readers)
        # Apart from the readers, which may be at a long recording.
        self.cutters = Threads(1)
        self._searchers = Threads(_SEARCHERS)
        self.passes = SharedPasses(self.current.hearing, self.counts.pass_pieces.observe)
        self._watch()
        self._warm_up(self.current)

    @property
    def detector(self) -> Detector:
        """The detector that requests begin with now."""
        return self.current.detector

    def _warm_up(self, served: Served) -> Future[Any]:
        """Score noise by a network, as the first recording would be."""
        hearing = served.hearing
        rate = hearing.audio.sample_rate
        noise = np.random.default_rng(0).uniform(-0.1, 0.1, _WARM_UP_S * rate).astype(np.float32)
        heard = hearing.scorer.as_heard(noise)
        if served.detector.needs_reference:
            reference = heard_again(heard, hearing.audio)
            hearing = served.detector.with_reference(reference, rate).hearing
        return self.passes.submit(hearing.cut(heard), hearing=hearing)

    def replace(self, detector: Detector, network: str) -> None:
        """Answer by another network from now on; what has begun ends with the one before.

        It waits until the network has scored something, while requests go on.

        Raises:
            AsdfError: it gives no score; the network from before stays.
        """
        served = Served(detector, network)
        try:
            self._warm_up(served).result(self.limits.request_s)
        except Exception as error:
            # The failure was that of another network than the one that requests go to.
            self._warm_up(self.current)
            raise AsdfError(
                f"the network gives no score: {error or type(error).__name__}"
            ) from error
        self.current = served

    @property
    def in_memory(self) -> int:
        """How many recordings this worker has in memory."""
        return int(self.seat.board.held["recordings"][self.seat.row])

    @property
    def problem(self) -> str:
        """Why the service takes no recordings now; '' where it does."""
        if self.stopping:
            return "the service is stopping"
        if not self.passes.is_working:
            return "the network is not warmed up yet, or its last forward pass failed"
        return ""

    @property
    def is_live(self) -> bool:
        """Whether it would get ready by itself: no forward pass takes as long as none may.

        Whatever is in such a pass was refused already, and a device that hangs does not come back.
        """
        return self.passes.pass_s < 2 * self.limits.request_s

    def close(self) -> None:
        """Begin nothing more."""
        self.passes.close()
        self._readers.close()
        self.cutters.close()
        self._searchers.close()

    def end_calls(self) -> None:
        """Let calls end with what was heard so far."""
        for call in self.calls:
            call.set()

    @contextmanager
    def slot(self, served: Served | None = None) -> Iterator[Slot]:
        """Count a recording as long as anything of it is in memory.

        Args:
            served: Network that it is answered by; None: that of now.

        Raises:
            Refusal: 503, the service has as many as it may, or is stopping.
        """
        if self.stopping or not self.seat.take("recordings", self.limits.queue):
            raise self.no_room()
        slot = Slot(partial(self.seat.give_back, "recordings"), served or self.current)
        try:
            yield slot
        finally:
            slot.leave()

    @contextmanager
    def call(self) -> Iterator[Ending]:
        """Count a call as long as it is heard.

        Yields:
            Event that is set where it is to end.

        Raises:
            Refusal: 503, the service hears as many as it may, or is stopping.
        """
        if self.stopping:
            raise self.no_room()
        if not self.seat.take("calls", self.limits.calls):
            raise Refusal(503, f"{self.limits.calls} calls are heard already: try again.", 10)
        ending = asyncio.Event()
        self.calls.add(ending)
        try:
            yield ending
        finally:
            self.calls.discard(ending)
            self.seat.give_back("calls")

    @property
    def is_full(self) -> bool:
        """Whether the next recording is refused, unless one is done before it."""
        return self.stopping or self.seat.count("recordings") >= self.limits.queue

    def no_room(self) -> Refusal:
        """Return the refusal of a recording that is not taken."""
        if self.stopping:
            return Refusal(503, "the service is stopping: try again later.", 10)
        return Refusal(503, f"{self.limits.queue} recordings are waiting already: try again.", 1)

    def check_question(self, question: Question) -> None:
        """Raise a UsageError where a question has no answer, before anything is read."""
        if question.window is not None:
            in_samples(*question.window, self.detector.window_samples)
        if question.watermarks and self.watermarks is None:
            raise UsageError(
                "this service does not search for watermarks: whoever runs it would start it with "
                "serve --watermarks."
            )

    async def answer(
        self,
        upload: Upload,
        question: Question,
        client: str,
        gone: asyncio.Future[None],
        slot: Slot,
    ) -> dict[str, Any]:
        """Return the document on a recording.

        Args:
            client: Address of the client, whose allowance the recording is counted against.
            gone: Future that is done when the client is gone.

        Raises:
            Refusal: it cannot be decoded or scored, or not in time, or the client has used up its
                allowance.
        """
        self.counts.received_bytes.inc(len(upload.content) + len(upload.reference))
        wait = Wait(time.monotonic() + self.limits.request_s, threading.Event())
        served = slot.served
        reading = self._readers.submit(self._decode, served, upload, question, wait)
        # A reader that does not come back holds its recording on.
        slot.hold_until_done(reading)
        passing: Future[Any] | None = None
        try:
            decoded = await wait_for(reading, gone, wait)
            self.rates.charge(client, decoded.heard_s)
            marking = self._begin_search(upload, question, wait, slot)
            passing = self.passes.submit(decoded.pieces, upload.name or "-", decoded.hearing)
            result, windows = await wait_for(passing, gone, wait)
            speakers = await self._score_speakers(decoded, upload.name or "-", gone, wait)
            if marking is not None:
                await wait_for(marking, gone, wait)
        except UsageError as error:
            raise Refusal(422, for_clients(str(error))) from None
        except AsdfError as error:
            # The recording is decoded, so the network or its device is at fault.
            raise Refusal(422 if passing is None else 500, for_clients(str(error))) from None
        finally:
            wait.is_over.set()
            if passing is not None:
                passing.cancel()
        document = self._conclude(served, result, windows, question, marking)
        document["recordings"][0] |= decoded.digests
        document |= speakers
        await self.record(document)
        if decoded.outline is not None:
            document["outline"] = decoded.outline
        return document

    def _begin_search(
        self, upload: Upload, question: Question, wait: Wait, slot: Slot
    ) -> Future[list[Watermark]] | None:
        """Begin to search an upload for watermarks, next to its score; None: nobody asks."""
        if self.watermarks is None or not question.watermarks:
            return None
        # At the rate of the file, which a mark may need.
        source = upload_source(upload, self.limits)
        is_over = wait.is_over.is_set
        marking = self._searchers.submit(read_marks, self.watermarks, source, is_over)
        # As long as it reads, the recording is in memory.
        slot.hold_until_done(marking)
        return marking

    async def _score_speakers(
        self, decoded: _Decoded, name: str, gone: asyncio.Future[None], wait: Wait
    ) -> dict[str, Any]:
        """Return the document's entry of the speakers of a conversation; {} without turns.

        Raises:
            Refusal: there is no client or no time any more.
            AsdfError: the network fails.
        """
        entries = []
        for speaker, pieces in decoded.speakers:
            result = Scored(0, None, error="this speaker never speaks alone", name=name)
            if pieces is not None:
                passing = self.passes.submit(pieces, name, decoded.hearing)
                try:
                    alone, _ = await wait_for(passing, gone, wait)
                finally:
                    passing.cancel()
                result = conclude_speaker(alone, speaker)
            entries.append(speaker_entry(result.entry(), speaker))
        return {"speakers": entries} if entries else {}

    def _conclude(
        self,
        served: Served,
        result: Scored,
        windows: Sequence[WindowScore],
        question: Question,
        marking: Future[list[Watermark]] | None,
    ) -> dict[str, Any]:
        """Count a recording that is scored, and return its document, with the watermarks."""
        self.counts.recordings.inc()
        self.counts.audio_seconds.inc(result.seconds or 0)
        document = served.documents.make(result, windows, question.trial, question.window)
        if self.watermarks is not None and marking is not None:
            document["watermarks"] = self.watermarks.entry()
            marks = [mark.entry() for mark in marking.result()]
            document["recordings"][0]["watermarks"] = marks
        return document

    async def record(self, document: dict[str, Any]) -> None:
        """Record a verdict, where verdicts are recorded, before anybody is told.

        Raises:
            Refusal: 503, it cannot be recorded.
        """
        if self.audit is None:
            return
        try:
            # In a thread of its own: a disk may take its time.
            await asyncio.to_thread(self.audit.add, audit_entry(document))
        except (OSError, AsdfError) as error:
            LOG.error("%s cannot be written: %s", self.audit.path, error)
            raise Refusal(
                503,
                "the audit file cannot be written, and no verdict is given without its record: "
                "try again later.",
                60,
            ) from None

    def _decode(self, served: Served, upload: Upload, question: Question, wait: Wait) -> _Decoded:
        hearing = served.hearing
        reference_s = 0.0
        try:
            if upload.reference or served.detector.needs_reference:
                compared = self._with_reference(served, upload, wait)
                hearing = compared.hearing
                reference_s = compared.reference_s
            waveform = decode_upload(upload, self.limits, wait, hearing.audio)
        except (OSError, MemoryError, ValueError) as error:
            raise AsdfError(f"{upload.name or NAME} cannot be read: {error}.") from error
        self._check_work(served, len(waveform), question)
        points = question.points
        shape = outline(waveform, points) if points else None
        pieces = served.hearing.cut(waveform, not question.trial, question.window)
        speakers = self._cut_speakers(served, waveform, upload, question)
        digests = {"sha256": recording_digest(upload.content)}
        if upload.reference:
            digests["reference_sha256"] = recording_digest(upload.reference)
        decoded = _Decoded(pieces, shape, digests, speakers=speakers, hearing=hearing)
        # Not by the file's size: minutes of silence are some kilobytes.
        heard = sum(map(hearing.batch_length, decoded.all_pieces))
        if self.watermarks is not None and question.watermarks:
            heard += len(waveform) * len(self.watermarks.readers)
        heard_s = reference_s + heard / hearing.audio.sample_rate
        return replace(decoded, heard_s=heard_s)

    def _with_reference(self, served: Served, upload: Upload, wait: Wait) -> Detector:
        """Return the detector that compares an upload with the reference that came with it.

        Raises:
            UsageError: none came, or the network takes none.
            AsdfError: it cannot be decoded.
        """
        if not upload.reference:
            raise UsageError(
                "the network of this service compares each recording with a reference: send it in "
                "the form too, curl -F file=@call.mp3 -F reference=@known.wav."
            )
        known = replace(upload, content=upload.reference, name="the reference")
        audio = served.hearing.audio
        waveform = heard_again(decode_upload(known, self.limits, wait, audio), audio)
        return served.detector.with_reference(waveform, audio.sample_rate)

    def _cut_speakers(
        self, served: Served, waveform: np.ndarray, upload: Upload, question: Question
    ) -> tuple[tuple[Speaker, Pieces | None], ...]:
        """Return what each speaker of a conversation says alone; () without turns.

        Raises:
            UsageError: a trial is requested, which is of a whole recording.
            AsdfError: the turns cannot be read, or are of another recording.
        """
        if not upload.turns:
            return ()
        if question.trial:
            raise UsageError("trial is of whole recordings, and not of their speakers.")
        known = parse_speakers(lines_of(io.BytesIO(upload.turns), _RTTM), Path(_RTTM))
        audio = served.hearing.audio
        whole = as_recording(heard_again(waveform, audio), audio.sample_rate, audio=audio)
        # Turns of one recording are those of the upload, whatever it is called.
        name = upload.name if len(known) > 1 else None
        speakers: list[tuple[Speaker, Pieces | None]] = []
        for each in speaker_recordings(whole, choose_speakers(known, _RTTM, name)):
            alone = served.hearing.cut(each.read_whole()) if each.speaker.alone else None
            speakers.append((each.speaker, alone))
        return tuple(speakers)

    def _check_work(self, served: Served, samples: int, question: Question) -> None:
        """Refuse windows that would take the network too long."""
        if question.window is None:
            return
        rate = served.hearing.audio.sample_rate
        window, hop = in_samples(*question.window, rate=rate)
        count = count_windows(samples, window, hop)
        heard = count * served.hearing.scorer.scored_samples(window)
        if heard > self.limits.max_piece_s * rate:
            raise UsageError(
                f"the network would hear {count:,} windows, each as "
                f"{heard / count / rate:.2f} s: take a longer hop, or a shorter recording."
            )

    def watch_connections(self, doors: Sized) -> None:
        """Count open connections with the other numbers."""
        self.counts.watch(
            "asdf_connections",
            "Open connections.",
            lambda: len(doors) + self.seat.count_connections(),
        )

    def note_load(self) -> None:
        """State on the board how much waits here, and whether recordings are taken."""
        self.seat.note("pieces", self.passes.pieces_waiting)
        self.seat.note("waits_s", self.passes.waits_s)
        self.seat.note("ready", not self.problem)

    def _watch(self) -> None:
        watch = self.counts.watch
        held = self.seat.board.held

        def noted(name: str, combine: Callable[[np.ndarray], float]) -> float:
            # What this worker stated last may be a tenth of a second old.
            self.note_load()
            return float(combine(held[name]))

        watch("asdf_ready", "1 if recordings are taken.", lambda: not self.problem)
        watch("asdf_workers_ready", "Workers that take recordings.", lambda: noted("ready", np.sum))
        watch(
            "asdf_recordings_in_memory",
            "Recordings in memory.",
            lambda: self.seat.count("recordings"),
        )
        watch("asdf_calls", "Calls that are heard.", lambda: self.seat.count("calls"))
        watch(
            "asdf_pieces_waiting",
            "Pieces of recordings that wait for a forward pass.",
            lambda: noted("pieces", np.sum),
        )
        watch(
            "asdf_queue_age_seconds",
            "Seconds that the oldest recording has waited for its score.",
            lambda: noted("waits_s", np.max),
        )


class Slot:
    """A recording's share of the memory, which is left once: by the last that holds it.

    Attributes:
        served: Network that it is answered by.
    """

    def __init__(self, leave: Callable[[], None], served: Served) -> None:
        self.served = served
        self._leave = leave
        self._holders = 1
        self._lock = threading.Lock()

    def hold_until_done(self, future: Future[Any]) -> None:
        """Hold the share until a future is done, whoever leaves before."""
        with self._lock:
            self._holders += 1
        future.add_done_callback(self.leave)

    def leave(self, _: object = None) -> None:
        """Give up one hold of the share."""
        with self._lock:
            self._holders -= 1
            is_last = not self._holders
        if is_last:
            self._leave()


async def wait_for(future: Future[Value], gone: asyncio.Future[None], wait: Wait) -> Value:
    """Return the result of a thread's future, as long as there is a client and time.

    The future itself goes on whatever happens here.

    Raises:
        Refusal: there is not.
    """
    wrapped = asyncio.wrap_future(future)
    # Nobody may be there to see how it ends.
    wrapped.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    remaining_s = max(0.0, wait.until_s - time.monotonic())
    waited: set[asyncio.Future[Any]] = {wrapped, gone}
    await asyncio.wait(waited, timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED)
    if wrapped.done():
        return wrapped.result()
    if gone.done():
        raise Refusal(GONE, "the client has gone.")
    raise Refusal(503, "the recording was not scored in time: try again later.", 5)
