"""Uploads of recordings, held only in memory.

Invariant: at most the limit is read of any upload, whatever length it states or hides, and nothing
is written to a disk.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from asdf.service.limits import GONE, Refusal, ServiceLimits
from asdf.text import printable, shorten

Content = TypeVar("Content")
# Size of the form around the file.
_FORM_BYTES = 16_384
_MAX_FIELDS = 8
_MAX_NAME = 100
_TURNS = "rttm"
_REFERENCE = "reference"
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
        reference: Content of a recording to compare with; empty without one.
        rate: Sampling rate of content that is float32 little-endian samples, in Hz; None: the
            content is a file.
    """

    content: bytes
    name: str = ""
    turns: bytes = b""
    reference: bytes = b""
    rate: Any = None


class _InMemoryParser(MultiPartParser):
    """Starlette's parser, with files that never move to a disk."""

    # No limit here, because the total size is limited already.
    spool_max_size = 0


async def read_upload(request: Request, limits: ServiceLimits) -> Upload:
    """Read the recording of a request.

    Raises:
        Refusal: it is too large, takes too long, or cannot be a recording.
    """
    kind = request.headers.get("content-type", "").lower()
    is_form = kind.startswith("multipart/form-data")
    # A request without a type is accepted as it is: many programs send none.
    if kind and not is_form and not kind.startswith(_TYPES):
        raise Refusal(415, f"{shorten(kind, 60)!r} is not a content type of recordings: {_HINT}.")
    if is_form:
        return await _in_time(_read_form(request, limits), limits)
    return Upload(await read_body(request, limits))


async def read_body(request: Request, limits: ServiceLimits) -> bytes:
    """Return the body of a request.

    Raises:
        Refusal: as `read_upload`.
    """
    return await _in_time(_read_bytes(request, limits), limits)


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


async def _in_time(reading: Coroutine[Any, Any, Content], limits: ServiceLimits) -> Content:
    """Return what is read within the client's time limit.

    Raises:
        Refusal: reading takes too long, or the client is gone.
    """
    try:
        return await asyncio.wait_for(reading, limits.upload_s)
    except asyncio.TimeoutError:
        raise Refusal(
            408, f"the recording did not arrive within {limits.upload_s:g} s: send it again."
        ) from None
    except ClientDisconnect:
        raise Refusal(GONE, "the client has gone.") from None


async def _read_bytes(request: Request, limits: ServiceLimits) -> bytes:
    content = io.BytesIO()
    async for chunk in _read_chunks(request, limits, limits.max_bytes):
        content.write(chunk)
    return content.getvalue()


async def _read_form(request: Request, limits: ServiceLimits) -> Upload:
    chunks = _read_chunks(request, limits, limits.max_bytes + _FORM_BYTES)
    parser = _InMemoryParser(
        request.headers,
        chunks,
        max_files=3,
        max_fields=_MAX_FIELDS,
        max_part_size=_FORM_BYTES,
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise Refusal(400, f"the form cannot be read ({error.message}): {_HINT}.") from None
    besides = {_TURNS: b"", _REFERENCE: b""}
    uploads = []
    for field, value in form.multi_items():
        if not isinstance(value, UploadFile):
            continue
        if field in besides:
            besides[field] = await value.read()
        else:
            # The last component of its name, printable and not too long.
            last = (value.filename or "").replace("\\", "/").rpartition("/")[2]
            name = shorten(printable(last, one_line=True), _MAX_NAME)
            uploads.append(Upload(await value.read(), name))
    if not uploads:
        raise Refusal(400, f"the form has no file: {_HINT}.")
    if len(uploads) > 1:
        raise Refusal(400, f"the form cannot be read (it has two recordings): {_HINT}.")
    return replace(uploads[0], turns=besides[_TURNS], reference=besides[_REFERENCE])


async def _read_chunks(
    request: Request,
    limits: ServiceLimits,
    max_bytes: int,
) -> AsyncGenerator[bytes, None]:
    too_large = Refusal(
        413,
        f"the recording is larger than {limits.max_mb:g} MB, the limit of this service: cut it, "
        "or compress it.",
    )
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > max_bytes:
        raise too_large
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > max_bytes:
            raise too_large
        yield chunk
