"""From upload to answer: admission, decoding, shared forward passes, and the document.

Invariant: at most `queue` recordings are in memory, counted from before the first byte is read
until nothing of the recording is left, even if its client is gone or a decoder takes too long.
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
from asdf.service.decoding import NAME, Wait, decode_upload, outline
from asdf.service.limits import GONE, Refusal, ServiceLimits, for_clients
from asdf.service.questions import Question
from asdf.service.rates import Rates
from asdf.service.served import Served
from asdf.service.shared_passes import SharedPasses
from asdf.service.uploads import Upload
from asdf.trials.text_lines import lines_of

Value = TypeVar("Value")
Ending = asyncio.Event
# Noise of sufficient length for any network, and for choosing kernels.
_WARM_UP_S = 1
# Name of the turns of speakers in messages.
_RTTM = "rttm"


@dataclass(frozen=True)
class _Decoded:
    """A recording, cut into pieces for the network.

    Attributes:
        digests: Digests of the uploaded files, by their keys in answers.
        heard_s: Length of audio heard by the network, in seconds.
        speakers: Speakers of a conversation, each with pieces of his or her speech alone, or None.
        hearing: Scorer of the recording: the service's, or with the uploaded reference.
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
        current: Network for new requests.
        counts: Counts for Prometheus.
        rates: Limits on requests and seconds of audio of each client.
        stopping: Whether new recordings are refused, because the service is about to end.
        draining: Whether no connection is accepted any more, because other workers accept them.
        calls: Calls in progress.
    """

    def __init__(
        self,
        detector: Detector,
        network: str,
        limits: ServiceLimits,
        audit: AuditFile | None = None,
        seat: Seat | None = None,
        metrics: Path | None = None,
    ) -> None:
        """Start the threads, and warm the network up in the background.

        Args:
            network: Path or name that the detector was opened by.
            audit: Audit file in which each verdict is recorded.
            seat: Seat of this worker among those of the service; None: it is the only one.
            metrics: Folder in which the workers count together; None: there is only one worker.

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
        self.audit = audit
        self.calls: set[Ending] = set()
        self._readers = Threads(limits.readers)
        # Separate from the readers, which may be busy with a long recording.
        self.cutters = Threads(1)
        self.passes = SharedPasses(self.current.hearing, self.counts.pass_pieces.observe)
        self._watch()
        self._warm_up(self.current)

    @property
    def detector(self) -> Detector:
        """The detector for new requests."""
        return self.current.detector

    def _warm_up(self, served: Served) -> Future[Any]:
        """Score noise with a network, as the first recording would be scored."""
        hearing = served.hearing
        rate = hearing.audio.sample_rate
        noise = np.random.default_rng(0).uniform(-0.1, 0.1, _WARM_UP_S * rate).astype(np.float32)
        heard = hearing.scorer.as_heard(noise)
        if served.detector.needs_reference:
            reference = heard_again(heard, hearing.audio)
            hearing = served.detector.with_reference(reference, rate).hearing
        return self.passes.submit(hearing.cut(heard), hearing=hearing)

    def replace(self, detector: Detector, network: str) -> None:
        """Use another network for new requests; current requests end with the previous one.

        It waits until the network has scored something, while requests continue.

        Raises:
            AsdfError: the network gives no score; the previous network stays.
        """
        served = Served(detector, network)
        try:
            self._warm_up(served).result(self.limits.request_s)
        except Exception as error:
            # The failure was in another network than the one used for requests.
            self._warm_up(self.current)
            raise AsdfError(f"the network failed: {error or type(error).__name__}") from error
        self.current = served

    @property
    def in_memory(self) -> int:
        """Number of recordings that this worker has in memory."""
        return int(self.seat.board.held["recordings"][self.seat.row])

    @property
    def problem(self) -> str:
        """Reason why the service accepts no recordings now; '' if it does."""
        if self.stopping:
            return "the service is stopping"
        if not self.passes.is_working:
            return "the network is not warmed up yet, or its last forward pass failed"
        return ""

    @property
    def is_live(self) -> bool:
        """Whether it would recover by itself: no forward pass exceeds the maximum duration.

        Requests in such a pass were refused already, and a hanging device does not recover.
        """
        return self.passes.pass_s < 2 * self.limits.request_s

    def close(self) -> None:
        """Accept nothing more."""
        self.passes.close()
        self._readers.close()
        self.cutters.close()

    def end_calls(self) -> None:
        """End calls with the result so far."""
        for call in self.calls:
            call.set()

    @contextmanager
    def slot(self, served: Served | None = None) -> Iterator[Slot]:
        """Count a recording while any part of it is in memory.

        Args:
            served: Network that answers it; None: the current one.

        Raises:
            Refusal: 503, the service is full, or is stopping.
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
        """Count a call while it is in progress.

        Yields:
            Event that is set when the call should end.

        Raises:
            Refusal: 503, the service has the maximum number of calls, or is stopping.
        """
        if self.stopping:
            raise self.no_room()
        if not self.seat.take("calls", self.limits.calls):
            raise Refusal(503, f"{self.limits.calls} calls are already in progress: try again.", 10)
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
        """Return the refusal of a recording for lack of room."""
        if self.stopping:
            return Refusal(503, "the service is stopping: try again later.", 10)
        return Refusal(503, f"{self.limits.queue} recordings are already waiting: try again.", 1)

    def check_question(self, question: Question) -> None:
        """Raise a UsageError if a request cannot be answered, before anything is read."""
        if question.window is not None:
            in_samples(*question.window, self.detector.window_samples)

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
            client: Address of the client, to whose allowance the recording is charged.
            gone: Future that is done when the client is gone.

        Raises:
            Refusal: the recording cannot be decoded or scored, or not in time, or the client has
                used up its allowance.
        """
        self.counts.received_bytes.inc(len(upload.content) + len(upload.reference))
        wait = Wait(time.monotonic() + self.limits.request_s, threading.Event())
        served = slot.served
        reading = self._readers.submit(self._decode, served, upload, question, wait)
        # A reader that does not return keeps its recording.
        slot.hold_until_done(reading)
        passing: Future[Any] | None = None
        try:
            decoded = await wait_for(reading, gone, wait)
            self.rates.charge(client, decoded.heard_s)
            passing = self.passes.submit(decoded.pieces, upload.name or "-", decoded.hearing)
            result, windows = await wait_for(passing, gone, wait)
            speakers = await self._score_speakers(decoded, upload.name or "-", gone, wait)
        except UsageError as error:
            raise Refusal(422, for_clients(str(error))) from None
        except AsdfError as error:
            # The recording is decoded, so the error is in the network or its device.
            raise Refusal(422 if passing is None else 500, for_clients(str(error))) from None
        finally:
            wait.is_over.set()
            if passing is not None:
                passing.cancel()
        document = self._conclude(served, result, windows, question)
        document["recordings"][0] |= decoded.digests
        document |= speakers
        await self.record(document)
        if decoded.outline is not None:
            document["outline"] = decoded.outline
        return document

    async def _score_speakers(
        self, decoded: _Decoded, name: str, gone: asyncio.Future[None], wait: Wait
    ) -> dict[str, Any]:
        """Return the document's entry on the speakers of a conversation; {} without turns.

        Raises:
            Refusal: the client is gone, or the time is over.
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
    ) -> dict[str, Any]:
        """Count a scored recording, and return its document."""
        self.counts.recordings.inc()
        self.counts.audio_seconds.inc(result.seconds or 0)
        return served.documents.make(result, windows, question.trial, question.window)

    async def record(self, document: dict[str, Any]) -> None:
        """Record a verdict in the audit file, if there is one, before it is sent.

        Raises:
            Refusal: 503, it cannot be recorded.
        """
        if self.audit is None:
            return
        try:
            # In a separate thread, because a disk may be slow.
            await asyncio.to_thread(self.audit.add, audit_entry(document))
        except (OSError, AsdfError) as error:
            LOG.error("%s cannot be written: %s", self.audit.path, error)
            raise Refusal(
                503,
                "the audit file cannot be written, and no verdict is given without a record: try "
                "again later.",
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
        # Not estimated by the file's size: minutes of silence take only kilobytes.
        heard = sum(map(hearing.batch_length, decoded.all_pieces))
        heard_s = reference_s + heard / hearing.audio.sample_rate
        return replace(decoded, heard_s=heard_s)

    def _with_reference(self, served: Served, upload: Upload, wait: Wait) -> Detector:
        """Return the detector that compares an upload with its reference.

        Raises:
            UsageError: the reference is missing, or the network takes none.
            AsdfError: the reference cannot be decoded.
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
        """Return the speech of each speaker of a conversation alone; () without turns.

        Raises:
            UsageError: a trial score is requested, which is of a whole recording.
            AsdfError: the turns cannot be read, or are of another recording.
        """
        if not upload.turns:
            return ()
        if question.trial:
            raise UsageError("trial applies to whole recordings, not to their speakers.")
        known = parse_speakers(lines_of(io.BytesIO(upload.turns), _RTTM), Path(_RTTM))
        audio = served.hearing.audio
        whole = as_recording(heard_again(waveform, audio), audio.sample_rate, audio=audio)
        # The turns of a single recording apply to the upload, whatever its name.
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
                f"the network would score {count:,} windows, each as {heard / count / rate:.2f} s: "
                "use a longer hop, or a shorter recording."
            )

    def watch_connections(self, doors: Sized) -> None:
        """Add the number of open connections to the metrics."""
        self.counts.watch(
            "asdf_connections",
            "Open connections.",
            lambda: len(doors) + self.seat.count_connections(),
        )

    def note_load(self) -> None:
        """Publish this worker's load on the board, and whether it accepts recordings."""
        self.seat.note("pieces", self.passes.pieces_waiting)
        self.seat.note("waits_s", self.passes.waits_s)
        self.seat.note("ready", not self.problem)

    def _watch(self) -> None:
        watch = self.counts.watch
        held = self.seat.board.held

        def noted(name: str, combine: Callable[[np.ndarray], float]) -> float:
            # This worker's last publication may be a tenth of a second old.
            self.note_load()
            return float(combine(held[name]))

        watch("asdf_ready", "1 if recordings are accepted.", lambda: not self.problem)
        watch(
            "asdf_workers_ready", "Workers that accept recordings.", lambda: noted("ready", np.sum)
        )
        watch(
            "asdf_recordings_in_memory",
            "Recordings in memory.",
            lambda: self.seat.count("recordings"),
        )
        watch("asdf_calls", "Calls in progress.", lambda: self.seat.count("calls"))
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
    """A recording's share of the memory, released by its last holder.

    Attributes:
        served: Network that answers the recording.
    """

    def __init__(self, leave: Callable[[], None], served: Served) -> None:
        self.served = served
        self._leave = leave
        self._holders = 1
        self._lock = threading.Lock()

    def hold_until_done(self, future: Future[Any]) -> None:
        """Hold the share until a future is done, whoever releases it before."""
        with self._lock:
            self._holders += 1
        future.add_done_callback(self.leave)

    def leave(self, _: object = None) -> None:
        """Release one hold on the share."""
        with self._lock:
            self._holders -= 1
            is_last = not self._holders
        if is_last:
            self._leave()


async def wait_for(future: Future[Value], gone: asyncio.Future[None], wait: Wait) -> Value:
    """Return the result of a thread's future while the client waits and time is left.

    The future itself continues in any case.

    Raises:
        Refusal: the client is gone, or the time is over.
    """
    wrapped = asyncio.wrap_future(future)
    # There may be nobody left to retrieve its result.
    wrapped.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    remaining_s = max(0.0, wait.until_s - time.monotonic())
    waited: set[asyncio.Future[Any]] = {wrapped, gone}
    await asyncio.wait(waited, timeout=remaining_s, return_when=asyncio.FIRST_COMPLETED)
    if wrapped.done():
        return wrapped.result()
    if gone.done():
        raise Refusal(GONE, "the client has gone.")
    raise Refusal(503, "the recording was not scored in time: try again later.", 5)
