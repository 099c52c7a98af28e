"""Calls: audio over a websocket, with the score of each window as soon as it is complete.

Invariant: windows are those of `Detector.stream`, each heard by itself, so the division of the
audio into messages does not matter. The next message is read after the windows of the last one are
answered: the connection slows down a client that sends faster than the network hears, and memory
holds one message and one window, for calls of any length.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from starlette.websockets import WebSocket

from asdf.errors import AsdfError, UsageError
from asdf.scoring.detector import Detector
from asdf.scoring.hearing import Piece
from asdf.scoring.parts import part_window
from asdf.scoring.scored import WindowScore, decide_verdict
from asdf.scoring.waveforms import MAX_CHANNELS
from asdf.scoring.whole_recording import name_result
from asdf.scoring.windows import Cut
from asdf.service.limits import MAX_OVERLAP, Refusal, for_clients
from asdf.service.served import Served
from asdf.service.service import Ending, Service

MAX_MESSAGE = 2**18
"""Maximum size of a message, in bytes: 16 s of 16-bit samples at 8 kHz."""

# As in `pyproject.toml`: the service scores recordings without it.
NO_WEBSOCKETS = (
    "calls need the package websockets: pip install 'asdf-antispoofing[serve]', or upload "
    "recordings to /score."
)

_FORMATS: dict[str, np.dtype[Any]] = {"int16": np.dtype("<i2"), "float32": np.dtype("<f4")}
_RATE = 16000
_HOP_S = 1.0
# Codes of RFC 6455 and of its registry, by the status of a refusal.
_NORMAL = 1000
_CODES = {400: 1007, 408: 1008, 413: 1009, 422: 1007, 429: 1013, 500: 1011, 503: 1013}
_RESTART = 1012
_END = "end"


@dataclass(frozen=True)
class CallQuestion:
    """The parameters of a call.

    Attributes:
        rate: Sampling rate of the audio, in Hz.
        window_s, hop_s: Length of a window and distance between window starts, in seconds.
        sample: Type of a sample.
        channels: Number of channels, with interleaved samples.
    """

    rate: int
    window_s: float
    hop_s: float
    sample: np.dtype
    channels: int

    @property
    def frame_bytes(self) -> int:
        return self.channels * self.sample.itemsize

    def samples(self, content: bytes) -> np.ndarray:
        """Return a message's samples, (T, channels).

        Raises:
            Refusal: the message ends within a sample.
        """
        if len(content) % self.frame_bytes:
            raise Refusal(
                400,
                f"a message of {len(content)} bytes ends within a sample: send whole samples of "
                f"{self.frame_bytes} bytes.",
            )
        samples = np.frombuffer(content, self.sample).reshape(-1, self.channels)
        # In this machine's byte order.
        return samples.astype(self.sample.newbyteorder("="))


def read_call_question(query: Mapping[str, str], detector: Detector) -> CallQuestion:
    """Read the parameters of a call: rate, window, hop, format, channels.

    The default windows are those in which a detector searches for parts, 4 s for most networks.

    Raises:
        UsageError: a parameter is unknown, or its value is not valid.
    """
    known = ("rate", "window", "hop", "format", "channels")
    for name in query:
        if name not in known:
            raise UsageError(
                f"a call has no parameter {name!r}; its parameters are {', '.join(known)}."
            )
    name = query.get("format", "int16")
    if name not in _FORMATS:
        raise UsageError(f"format {name!r}: samples are int16 or float32, little-endian.")
    channels = _read_number(query, "channels", int, 1)
    if not 1 <= channels <= MAX_CHANNELS:
        raise UsageError(f"channels = {channels}: give 1 to {MAX_CHANNELS}.")
    samples = part_window(detector.length, detector.window_samples)
    window_s = _read_number(query, "window", float, samples / detector.sample_rate)
    # A second, or longer if the network would hear a long window too often.
    usual_s = min(max(_HOP_S, window_s / MAX_OVERLAP), window_s)
    hop_s = _read_number(query, "hop", float, usual_s)
    # Zero and negative values have another message.
    if 0 < hop_s < window_s / MAX_OVERLAP:
        raise UsageError(
            f"hop = {hop_s:g}: the network would score each second more than {MAX_OVERLAP} times. "
            f"Set {window_s / MAX_OVERLAP:g} s or more, or shorter windows."
        )
    return CallQuestion(
        _read_number(query, "rate", int, _RATE),
        window_s,
        hop_s,
        _FORMATS[name],
        channels,
    )


def _read_number(
    query: Mapping[str, str], name: str, kind: Callable[[str], Any], usual: Any
) -> Any:
    try:
        return kind(query.get(name, usual))
    except ValueError:
        raise UsageError(f"{name} = {query[name]!r} is not a number.") from None


def has_websockets() -> bool:
    """Return whether this installation supports calls."""
    return find_spec("websockets") is not None


class Call:
    """One call, from its first sample to its result."""

    def __init__(
        self, service: Service, served: Served, question: CallQuestion, client: str
    ) -> None:
        """Begin.

        Raises:
            UsageError: the rate or the windows are not valid, or the network compares recordings.
        """
        if served.detector.needs_reference:
            raise UsageError(
                "the network of this service compares each recording with a reference, which a "
                "call does not have: upload recordings to /score."
            )
        self._stream = served.detector.stream(question.rate, question.window_s, question.hop_s)
        self._service = service
        self._served = served
        self._question = question
        self._client = client
        self._digest = hashlib.sha256()
        self._frames = 0
        self._began_s = time.monotonic()
        self.windows = 0

    async def run(self, socket: WebSocket, ending: Ending) -> None:
        """Handle a call until it ends, and close the websocket.

        Args:
            ending: Event that is set when the service stops.

        Raises:
            WebSocketDisconnect: the client is gone. The result so far is recorded.
        """
        problem: Refusal | None = None
        document = None
        try:
            code = await self._hear(socket, ending)
        except Refusal as refusal:
            problem = refusal
        except UsageError as error:
            problem = Refusal(422, for_clients(str(error)))
        except AsdfError as error:
            problem = Refusal(500, for_clients(str(error)))
        finally:
            # Also for a call that broke off, because its windows were answered.
            try:
                document = await self._conclude()
            except Refusal as refusal:
                problem = problem or refusal
        if document is not None:
            await self._send(socket, {"result": document})
        if document is None and problem is None:
            problem = Refusal(400, "the call ended without samples.")
        if problem is not None:
            reason: dict[str, Any] = {"error": problem.message}
            if problem.retry_after_s is not None:
                reason["retry_after_s"] = problem.retry_after_s
            await self._send(socket, reason)
            code = _CODES.get(problem.status, 1011)
        await socket.close(code)

    async def _hear(self, socket: WebSocket, ending: Ending) -> int:
        """Answer messages until the last one; return the code for closing."""
        stopping = asyncio.ensure_future(ending.wait())
        code = _NORMAL
        try:
            while True:
                message = await self._receive(socket, stopping)
                if message is None:
                    code = _RESTART
                    break
                content = message.get("bytes")
                # Our own server refuses it before it is read as a whole; other servers may not.
                if len(content or message.get("text") or "") > MAX_MESSAGE:
                    raise Refusal(413, f"a message has {MAX_MESSAGE:,} bytes at most: send less.")
                if content is None:
                    if (message.get("text") or "").strip() == _END:
                        break
                    raise Refusal(
                        400,
                        "a text message must be 'end', which ends the call: send samples as bytes.",
                    )
                samples = self._take(content)
                await self._answer(socket, self._stream.cut(samples))
        finally:
            stopping.cancel()
        await self._answer(socket, self._stream.cut_rest())
        return code

    async def _receive(
        self, socket: WebSocket, stopping: asyncio.Future[Any]
    ) -> dict[str, Any] | None:
        """Return the next message; None if the service stops.

        Raises:
            Refusal: no message arrived for too long.
            WebSocketDisconnect: the client is gone.
        """
        receiving = asyncio.ensure_future(socket.receive())
        waited: set[asyncio.Future[Any]] = {receiving, stopping}
        idle_s = self._service.limits.upload_s
        try:
            await asyncio.wait(waited, timeout=idle_s, return_when=asyncio.FIRST_COMPLETED)
            if receiving.done():
                message: dict[str, Any] = dict(receiving.result())
                # Starlette's own methods do so, too, but each of them reads one kind of message.
                socket._raise_on_disconnect(message)
                return message
        finally:
            receiving.cancel()
        if stopping.done():
            return None
        raise Refusal(
            408, f"nothing was received for {idle_s:g} s: end a call with the text 'end'."
        )

    def _take(self, content: bytes) -> np.ndarray:
        """Count a message; return its samples.

        Raises:
            Refusal: the call is too long, or the message contains no samples.
        """
        samples = self._question.samples(content)
        limit_s = self._service.limits.call_s
        self._frames += len(samples)
        clock_s = time.monotonic() - self._began_s
        if max(self._frames / self._question.rate, clock_s) > limit_s:
            raise Refusal(408, f"a call lasts {limit_s:g} s at most: start another.")
        self._service.counts.received_bytes.inc(len(content))
        self._digest.update(content)
        return samples

    async def _next_piece(self, cuts: Iterator[Cut]) -> Piece | None:
        """Return the next complete window, made in a thread; None if there is none."""

        def make() -> Piece | None:
            cut = next(cuts, None)
            return None if cut is None else self._stream.piece(cut)

        return await asyncio.wrap_future(self._service.cutters.submit(make))

    async def _answer(self, socket: WebSocket, cuts: Iterator[Cut]) -> None:
        """Score windows, and send each score before the next window is made.

        Raises:
            Refusal: the client has used up its audio, or the network takes too long.
        """
        hearing = self._served.hearing
        came_s = time.monotonic()
        while (piece := await self._next_piece(cuts)) is not None:
            heard_s = hearing.batch_length(piece) / hearing.audio.sample_rate
            self._service.rates.charge(self._client, heard_s)
            passing = self._service.passes.submit_window(piece, hearing)
            try:
                outcome = await asyncio.wait_for(
                    asyncio.wrap_future(passing), self._service.limits.request_s
                )
            except asyncio.TimeoutError:
                raise Refusal(503, "a window was not scored in time: try again later.", 5) from None
            window = self._stream.count(piece.scored(outcome))
            self.windows += 1
            self._service.counts.call_windows.inc()
            self._service.counts.window_seconds.observe(time.monotonic() - came_s)
            await self._send(socket, self._describe(window))

    def _describe(self, window: WindowScore) -> dict[str, Any]:
        threshold = self._served.detector.threshold
        verdict = decide_verdict(
            window.score, threshold, window.judged, unbounded_llr=window.unbounded_llr
        )
        so_far = self._stream.score
        assert so_far is not None
        return {
            "window": {**window.entry(), "verdict": verdict, "judged": window.judged},
            "so_far": {
                "score": float(so_far),
                "verdict": so_far.verdict,
                "seconds": so_far.seconds,
            },
        }

    async def _conclude(self) -> dict[str, Any] | None:
        """Return the recorded document of the call; None if nothing was heard.

        Raises:
            Refusal: it cannot be recorded.
        """
        score = self._stream.score
        if score is None:
            return None
        question = self._question
        result = name_result(score, "-")
        self._service.counts.recordings.inc()
        self._service.counts.audio_seconds.inc(result.seconds or 0)
        window = (question.window_s, question.hop_s)
        document = self._served.documents.make(result, (), False, window)
        document["scores"] = (
            f"scores of calls: the mean over windows of {question.window_s:g} s, "
            f"{question.hop_s:g} s apart"
        )
        # No command reproduces a call, and `searched` states the windows.
        document["made_by"]["command"] = ""
        document.pop("part_search", None)
        document["recordings"][0]["sha256"] = self._digest.hexdigest()
        await self._service.record(document)
        return document

    async def _send(self, socket: WebSocket, message: dict[str, Any]) -> None:
        """Send a message to a client that is still reading.

        Raises:
            Refusal: the client does not read.
        """
        # JSON has no NaN: browsers could not read the message.
        text = json.dumps(message, allow_nan=False)
        head_s = self._service.limits.head_s
        try:
            await asyncio.wait_for(socket.send_text(text), head_s)
        except asyncio.TimeoutError:
            raise Refusal(408, "the client did not read the answers.") from None
