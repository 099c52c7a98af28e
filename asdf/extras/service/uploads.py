"""Uploads of recordings, read and decoded in bounded memory and time.

Invariant: at most the limit is read of any upload, whatever length it states or hides, and nothing
is written to a disk. Sizes in a header are checked before memory is allocated, and decoding ends
between two blocks if nobody waits for it any more: a thread cannot be terminated from outside.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from asdf.audio.reading import read_blocks
from asdf.audio.recording_sources import Limits, Source
from asdf.extras.service.limits import GONE, Refusal, ServiceLimits, other_ways
from asdf.scoring.recordings import FileRecording
from asdf.settings.sections import Audio
from asdf.text import did_you_mean, printable, shorten

NAME = "the recording"
"""Name of a recording without a name, in messages."""

# Size of the form around the file.
_FORM_BYTES = 16_384
_MAX_FIELDS = 8
_MAX_NAME = 100
_FILE, _TURNS = _FIELDS = ("file", "rttm")
# At a high rate with many channels, each block takes far more memory than at 16 kHz.
_BLOCK_S = 4
_BLOCK_BYTES = 2**28
_TYPES = ("audio/", "video/", "application/octet-stream", "application/ogg")
_HINT = (
    "send one recording per request, as the bytes of its file with the type "
    "application/octet-stream, or in a form: curl -F file=@call.mp3"
)


@dataclass(frozen=True)
class Upload:
    """An uploaded recording.

    Attributes:
        name: Name of its file according to the client; '' if unknown.
        turns: Content of an RTTM with the turns of its speakers; empty without one.
    """

    content: bytes
    name: str = ""
    turns: bytes = b""


@dataclass(frozen=True)
class Wait:
    """A client that waits, until a time of the monotonic clock or until `is_over` is set."""

    until_s: float
    is_over: threading.Event

    def check(self) -> None:
        """Raise a Refusal if nobody waits any more."""
        if self.is_over.is_set() or time.monotonic() > self.until_s:
            raise Refusal(503, "decoding took too long: try again later.", 1)


class _InMemoryParser(MultiPartParser):
    """Starlette's parser, with files that never move to a disk."""

    # No limit here, because the total size is limited already.
    spool_max_size = 0


async def read_upload(
    request: Request, limits: ServiceLimits, hold: Callable[[int], None]
) -> Upload:
    """Read the recording of a request.

    Args:
        hold: Function that is called with the number of bytes read so far, and may raise a Refusal.

    Raises:
        Refusal: it is too large, takes too long, or cannot be a recording.
    """
    kind = request.headers.get("content-type", "").lower()
    is_form = kind.startswith("multipart/form-data")
    # A request without a type is accepted as it is: many programs send none.
    if kind and not is_form and not kind.startswith(_TYPES):
        raise Refusal(415, f"{shorten(kind, 60)!r} is not a content type of recordings: {_HINT}.")
    max_bytes = limits.max_bytes + (_FORM_BYTES if is_form else 0)
    chunks = _read_chunks(request, limits, max_bytes, hold)
    reading = _read_form(request, chunks) if is_form else _read_body(chunks)
    try:
        return await asyncio.wait_for(reading, limits.upload_s)
    except asyncio.TimeoutError:
        raise Refusal(
            408, f"the recording did not arrive within {limits.upload_s:g} s: send it again."
        ) from None
    except ClientDisconnect:
        raise Refusal(GONE, "the client has gone.") from None


def recording_of(upload: Upload, limits: ServiceLimits, audio: Audio) -> FileRecording:
    """Return an upload as a recording that a network hears as `audio`."""
    name = upload.name or NAME
    bounds = Limits(max_seconds=limits.max_seconds, memory=_BLOCK_BYTES)
    return FileRecording(0, name, None, audio, Source(name, upload.content, bounds))


def decode_upload(
    recording: FileRecording, wait: Wait, hold: Callable[[float], None]
) -> np.ndarray:
    """Return the samples of a recording as the network hears it: (T,) float32, T >= 1.

    Args:
        hold: Function that is called with the seconds so far, and may raise a Refusal.

    Raises:
        AsdfError: the recording cannot be decoded, or is too long.
        Refusal: nobody waits for it any more.
    """
    blocks = []
    wait.check()
    audio = recording.audio
    for block in read_blocks(recording.source, _BLOCK_S * audio.sample_rate, audio):
        blocks.append(block)
        wait.check()
        hold(_BLOCK_S * len(blocks))
    return np.concatenate(blocks)


@asynccontextmanager
async def watch_client(request: Request) -> AsyncIterator[asyncio.Future[None]]:
    """Watch the client of a request that was read; the future is done when it is gone."""

    async def wait_until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(wait_until_gone())
    try:
        yield gone
    finally:
        gone.cancel()


async def _read_body(chunks: AsyncGenerator[bytes, None]) -> Upload:
    return Upload(b"".join([chunk async for chunk in chunks]))


async def _read_form(request: Request, chunks: AsyncGenerator[bytes, None]) -> Upload:
    bounds = {"max_files": 2, "max_fields": _MAX_FIELDS, "max_part_size": _FORM_BYTES}
    parser = _InMemoryParser(request.headers, chunks, **bounds)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(400, f"the form cannot be read ({error.message}): {_HINT}.") from None
    files: dict[str, UploadFile] = {}
    for field, value in form.multi_items():
        if field not in _FIELDS:
            raise unknown_name("form field", field, _FIELDS)
        if field in files:
            raise Refusal(400, f"the form cannot be read (it has {field} twice): {_HINT}.")
        if not isinstance(value, UploadFile):
            raise Refusal(400, f"the form has text as {field}, where a file belongs: {_HINT}.")
        files[field] = value
    if _FILE not in files:
        raise Refusal(400, f"the form has no file: {_HINT}.")
    # The last component of its name, printable and not too long.
    last = (files[_FILE].filename or "").replace("\\", "/").rpartition("/")[2]
    name = shorten(printable(last, one_line=True), _MAX_NAME)
    turns = await files[_TURNS].read() if _TURNS in files else b""
    return Upload(await files[_FILE].read(), name, turns)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> Refusal:
    """Return the refusal of a parameter or form field that nothing would read."""
    shown = shorten(printable(str(name), one_line=True), _MAX_NAME)
    near = did_you_mean(shown, known) or f" It takes {', '.join(known)}."
    where = "" if kind == "parameter" else " Parameters are in the address: /score?window=4."
    return Refusal(422, f"/score has no {kind} '{shown}'.{near}{where}")


async def _read_chunks(
    request: Request, limits: ServiceLimits, max_bytes: int, hold: Callable[[int], None]
) -> AsyncGenerator[bytes, None]:
    too_large = Refusal(
        413, f"the recording is larger than {limits.max_mb:g} MB. {other_ways('--max-mb')}"
    )
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > max_bytes:
        raise too_large
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise too_large
        hold(received)
        yield chunk
