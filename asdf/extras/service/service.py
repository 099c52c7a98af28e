"""From upload to answer: admission, decoding, shared forward passes, and the document.

Invariant: at most `queue` recordings are in memory, counted from before the first byte is read
until nothing of the recording is left, even if its client is gone or a decoder takes too long. A
long or large recording counts as several, unless it is the only one.
"""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from asdf.data.threads import Threads
from asdf.errors import AsdfError, UsageError
from asdf.extras.service.answers import Documents, entry_of
from asdf.extras.service.counts import Counts
from asdf.extras.service.limits import GONE, Refusal, ServiceLimits, for_clients
from asdf.extras.service.passes import SharedPasses
from asdf.extras.service.uploads import NAME, Upload, Wait, decode_upload, recording_of
from asdf.scoring.detector import Detector
from asdf.scoring.document import recording_digest
from asdf.scoring.pipeline import Pieces
from asdf.scoring.recordings import as_recording
from asdf.scoring.scored import Scored, WindowScore, join_channels
from asdf.scoring.speakers import choose_speakers, conclude_speaker, speaker_recordings
from asdf.scoring.whole_recording import count_windows, in_samples
from asdf.segments import Speaker, read_speakers
from asdf.trials.text_lines import lines_of

Value = TypeVar("Value")

# Noise of sufficient length for any network, and for choosing kernels.
_WARM_UP_S = 1
# Name of the turns of speakers in messages.
_RTTM = "rttm"


@dataclass(eq=False)
class Slot:
    """A recording's share of the memory.

    Attributes:
        places: Places of the queue that it takes.
        reading: The reading that holds it, once it has begun.
    """

    places: int = 1
    reading: Future[Any] | None = None


class Asked(BaseModel):
    """The parameters of a request for a score; any other is refused."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    window: float | None = None
    """Seconds of a window: scores over time as well."""
    hop: float | None = None
    """Seconds from the start of a window to the next; else half a window."""
    trial: bool = False
    """Score the beginning only, as a trial of the network's protocol."""
    outline: int = Field(0, ge=0, le=4000)
    """Points of the waveform's outline, for a picture."""

    @property
    def windows(self) -> tuple[float, float] | None:
        """Length and hop of the windows in seconds; None without windows."""
        if self.window is None:
            return None
        return self.window, self.window / 2 if self.hop is None else self.hop

    def check(self, window_samples: int, rate: int) -> None:
        """Check the windows for a network that hears up to `window_samples` whole.

        Args:
            rate: Sampling rate of what the network hears, in Hz.

        Raises:
            UsageError: a hop without a window, or windows that leave parts out.
        """
        if self.windows is not None:
            in_samples(*self.windows, window_samples, rate)
        elif self.hop is not None:
            raise UsageError("hop is the distance between windows: set window too.")


@dataclass(frozen=True)
class _Heard:
    """A recording, or a part of one, cut into pieces for the network.

    Attributes:
        why: Description of how its channels or sound tracks differ; '' if they do not.
        sides: Each of these.
    """

    name: str
    pieces: Pieces
    why: str = ""
    sides: Sequence[_Heard] = ()


@dataclass(frozen=True)
class _Decoded:
    """What is scored of an upload.

    Attributes:
        speakers: Speakers of a conversation, each with his or her speech alone, or None.
    """

    heard: _Heard
    outline: dict[str, list[float]] | None
    sha256: str
    speakers: Sequence[tuple[Speaker, _Heard | None]]


class Service:
    """A detector that answers requests.

    Attributes:
        network: Path or name that the detector was opened by.
        limits: Limits of recordings and requests.
        counts: Counts for Prometheus.
        documents: Maker of the answers.
        in_memory: Number of recordings in memory, or more: places of the queue that are taken.
    """

    def __init__(self, detector: Detector, network: str, limits: ServiceLimits) -> None:
        """Start the threads, and warm the network up in the background."""
        self.detector = detector
        self.network = network
        self.limits = limits
        self.counts = Counts()
        self.documents = Documents(detector, network)
        self.in_memory = 0
        self._changing = threading.Lock()
        self._readers = Threads(limits.readers)
        # A single object, so that all pieces share forward passes.
        self._pipeline = detector.pipeline
        self.passes = SharedPasses(self._pipeline, self.counts)
        # Noise, as the first recording would be scored.
        rate = self._pipeline.audio.sample_rate
        noise = np.random.default_rng(0).uniform(-0.1, 0.1, _WARM_UP_S * rate).astype(np.float32)
        self.passes.submit(self._pipeline.cut(self._pipeline.scorer.as_heard(noise)))

    @property
    def problem(self) -> str:
        """Reason why the service accepts no recordings now; '' if it does."""
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

    @contextmanager
    def slot(self) -> Iterator[Slot]:
        """Count a recording while any part of it is in memory.

        Raises:
            Refusal: 503, the service is full.
        """
        slot = Slot(0)
        self.enlarge(slot, 0, 0)
        self.counts.in_memory.inc()

        def leave(_: object = None) -> None:
            with self._changing:
                self.in_memory -= slot.places
            self.counts.in_memory.dec()

        try:
            yield slot
        finally:
            # A reader that does not return keeps its recording.
            if slot.reading is not None:
                slot.reading.add_done_callback(leave)
            else:
                leave()

    def enlarge(self, slot: Slot, bytes_sent: float, seconds: float) -> None:
        """Take as many places of the queue as a recording of this size needs.

        Raises:
            Refusal: 503, the service is full.
        """
        places = self.limits.places(bytes_sent, seconds)
        with self._changing:
            others = self.in_memory - slot.places
            if others and others + places > self.limits.queue:
                message = f"{others} recordings are already waiting: try again."
                raise Refusal(503, message, 1)
            self.in_memory = others + max(places, slot.places)
            slot.places = max(places, slot.places)

    async def answer(
        self, upload: Upload, asked: Asked, gone: asyncio.Future[None], slot: Slot
    ) -> dict[str, Any]:
        """Return the document on a recording.

        Args:
            gone: Future that is done when the client is gone.
            slot: Share of the memory that the recording has.

        Raises:
            Refusal: the recording cannot be decoded or scored, or not in time.
        """
        self.counts.received_bytes.inc(len(upload.content))
        wait = Wait(time.monotonic() + self.limits.request_s, threading.Event())
        name = upload.name or "-"
        reading = self._readers.submit(self._decode, upload, asked, wait, slot)
        slot.reading = reading
        passing: list[Future[Any]] = []
        speakers = []

        async def judge(heard: _Heard) -> tuple[Scored, list[WindowScore]]:
            passing.append(self.passes.submit(heard.pieces, heard.name))
            result, windows = await wait_for(passing[-1], gone, wait)
            sides = [(await judge(side))[0] for side in heard.sides]
            if sides:
                result = join_channels(result, heard.why, sides, asked.trial)
            return result, windows

        try:
            decoded = await wait_for(reading, gone, wait)
            seconds = decoded.heard.pieces.total / self._pipeline.audio.sample_rate
            wait = replace(wait, until_s=wait.until_s + seconds)
            result, windows = await judge(decoded.heard)
            for speaker, heard in decoded.speakers:
                alone = Scored(0, None, error="this speaker never speaks alone", name=name)
                if heard is not None:
                    alone, _ = await judge(heard)
                speakers.append(conclude_speaker(alone, speaker))
        except UsageError as error:
            raise Refusal(422, for_clients(str(error))) from None
        except AsdfError as error:
            # Once the recording is decoded, the error is in the network or its device.
            raise Refusal(500 if passing else 422, for_clients(str(error))) from None
        finally:
            wait.is_over.set()
            for future in passing:
                future.cancel()
        self.counts.recordings.inc()
        self.counts.audio_seconds.inc(result.seconds or 0)
        # A page draws the outline, and shows what columns say.
        is_shown = asked.outline > 0
        document = self.documents.make(
            result, windows, asked.trial, asked.windows, is_shown=is_shown
        )
        document["recordings"][0]["sha256"] = decoded.sha256
        if speakers:
            document["speakers"] = [entry_of(each, is_shown=is_shown) for each in speakers]
        if decoded.outline is not None:
            document["outline"] = decoded.outline
        return document

    def _decode(self, upload: Upload, asked: Asked, wait: Wait, slot: Slot) -> _Decoded:
        """Decode a recording and cut it.

        Raises:
            UsageError: what is asked does not go with the recording.
            AsdfError: the recording or its turns cannot be read.
            Refusal: nobody waits for it any more.
        """
        pipeline = self._pipeline
        try:
            recording = recording_of(upload, self.limits, pipeline.audio)
            hold = partial(self.enlarge, slot, len(upload.content))
            waveform = decode_upload(recording, wait, hold)
            why, differing = recording.differing()
            sounds = {upload.name or "-": waveform}
            sounds |= {side.name: decode_upload(side, wait, hold) for side in differing}
        except (OSError, MemoryError, ValueError) as error:
            raise AsdfError(f"{upload.name or NAME} cannot be read: {error}.") from error
        self._check_work(len(waveform), asked)
        return _Decoded(
            self._cut(sounds, why, not asked.trial, asked.windows),
            outline(waveform, asked.outline) if asked.outline else None,
            recording_digest(upload.content),
            self._cut_speakers(sounds, why, upload, asked) if upload.turns else (),
        )

    def _cut(
        self,
        sounds: Mapping[str, np.ndarray],
        why: str,
        whole: bool = True,
        windows: tuple[float, float] | None = None,
    ) -> _Heard:
        """Cut a recording, and each of its channels or sound tracks if they differ."""
        (name, waveform), *rest = sounds.items()
        sides = [_Heard(side, self._pipeline.cut(samples, whole)) for side, samples in rest]
        return _Heard(name, self._pipeline.cut(waveform, whole, windows), why, sides)

    def _check_work(self, samples: int, asked: Asked) -> None:
        """Refuse windows that would take the network too long."""
        if asked.windows is None:
            return
        rate = self._pipeline.audio.sample_rate
        window, hop = in_samples(*asked.windows, rate=rate)
        count = count_windows(samples, window, hop)
        heard = count * self._pipeline.scorer.scored_samples(window)
        if heard > self.limits.max_heard_s * rate:
            raise UsageError(
                f"the network would score {count:,} windows, each as {heard / count / rate:.2f} s: "
                "use a longer hop."
            )

    def _cut_speakers(
        self, sounds: Mapping[str, np.ndarray], why: str, upload: Upload, asked: Asked
    ) -> list[tuple[Speaker, _Heard | None]]:
        """Return the speech of each speaker of a conversation alone.

        Raises:
            UsageError: a trial score is requested, which is of a whole recording.
            AsdfError: the turns cannot be read, or are of another recording.
        """
        if asked.trial:
            raise UsageError("trial applies to whole recordings, not to their speakers.")
        known = read_speakers(_RTTM, lines_of(io.BytesIO(upload.turns), _RTTM))
        # The turns of a single recording apply to the upload, whatever its name.
        chosen = choose_speakers(known, _RTTM, upload.name if len(known) > 1 else None)
        audio = self._pipeline.audio
        if isinstance(audio.channels, int):
            # The chosen channel has been read.
            audio = replace(audio, channels="mean")
        by_sound = []
        for name, waveform in sounds.items():
            whole = as_recording(waveform, audio.sample_rate, audio=audio)
            by_sound.append(speaker_recordings(replace(whole, name=name), chosen))
        speakers: list[tuple[Speaker, _Heard | None]] = []
        for each in zip(*by_sound, strict=True):
            speaker, heard = each[0].speaker, None
            if speaker.alone:
                alone = (one.read_whole() for one in each)
                heard = self._cut(dict(zip(sounds, alone, strict=True)), why)
            speakers.append((speaker, heard))
        return speakers


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


def outline(waveform: np.ndarray, points: int) -> dict[str, list[float]]:
    """Return the lowest and highest sample of each of up to `points` equal parts of (T,) samples.

    The values are rounded to the precision of a plot.
    """
    if waveform.ndim == 2:
        waveform = waveform.mean(axis=1)
    # At most one part per sample, since reduceat needs increasing starts.
    starts = np.linspace(0, len(waveform), min(points, len(waveform)), endpoint=False).astype(int)
    lowest = np.minimum.reduceat(waveform, starts).astype(float)
    highest = np.maximum.reduceat(waveform, starts).astype(float)
    return {"low": lowest.round(4).tolist(), "high": highest.round(4).tolist()}
