"""The routes of the open inference protocol (v2) for clients of KServe and Triton.

Invariant: a waveform sent as a tensor has the score, limits and records of an upload.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from asdf.service import tensors
from asdf.service.limits import Refusal
from asdf.service.questions import Question
from asdf.service.service import Service
from asdf.service.uploads import Upload, read_body, watch_client
from asdf.version import VERSION

WAVEFORMS, LENGTHS, RATE = "waveforms", "lengths", "sample_rate"
SCORES, VERDICTS, ENTRIES = "scores", "verdicts", "entries"
_VERSION = "1"


class InferencePaths:
    """The handlers of the protocol's routes."""

    def __init__(self, service: Service, admit: Callable[[Request], str]) -> None:
        """Answer with a service.

        Args:
            admit: Function that counts a request, checks its token, and returns the client's
                address.
        """
        self._service = service
        self._admit = admit
        # JSON takes twenty times its size while it is read.
        self._reading = asyncio.Lock()

    @property
    def _model(self) -> str:
        """Name of the network in paths: its file name without suffix."""
        name = self._service.current.documents.of_whole.network.partition("@")[0]
        last = re.split(r"[/:]", name)[-1]  # of a path, or of a name on the hub
        return re.sub(r"[^\w.-]", "_", last.removesuffix(".pt")) or "network"

    async def server(self) -> Response:
        about = {"name": "asdf", "version": VERSION, "extensions": [tensors.BINARY]}
        return JSONResponse(about)

    async def ready(self) -> Response:
        problem = self._service.problem
        return JSONResponse({"ready": not problem}, 503 if problem else 200)

    async def live(self) -> Response:
        is_live = self._service.is_live
        return JSONResponse({"live": is_live}, 200 if is_live else 503)

    async def model_ready(self, name: str, version: str = _VERSION) -> Response:
        self._check(name, version)
        return await self.ready()

    async def model(self, name: str, version: str = _VERSION) -> Response:
        self._check(name, version)

        def describe(tensor: str, datatype: str, *shape: int) -> dict[str, Any]:
            return {"name": tensor, "datatype": datatype, "shape": list(shape)}

        about = {
            "name": name,
            "versions": [_VERSION],
            "platform": "asdf",
            "inputs": [
                describe(WAVEFORMS, "FP32", -1, -1),
                describe(LENGTHS, "INT32", -1),
                describe(RATE, "INT32", 1),
            ],
            "outputs": [
                describe(SCORES, "FP32", -1),
                describe(VERDICTS, tensors.BYTES, -1),
                describe(ENTRIES, tensors.BYTES, -1),
            ],
        }
        return JSONResponse(about)

    async def infer(self, request: Request, name: str, version: str = _VERSION) -> Response:
        client = self._admit(request)
        self._check(name, version)
        if "content-encoding" in request.headers:
            raise Refusal(415, "compressed requests are not supported: send them uncompressed.")
        service = self._service
        with ExitStack() as slots:
            first = slots.enter_context(service.slot())
            body = await read_body(request, service.limits)
            length = request.headers.get(tensors.HEADER_LENGTH)
            async with self._reading:
                asked = await asyncio.to_thread(tensors.read_request, body, length)
            rate = first.served.detector.sample_rate
            most = service.limits.queue
            uploads = await asyncio.to_thread(_read_uploads, asked, rate, most)
            held = [first]
            # The number of recordings is known only after the body was read.
            for _ in uploads[1:]:
                held.append(slots.enter_context(service.slot(first.served)))
            async with watch_client(request) as gone:
                question = Question()
                tasks = []
                for upload, slot in zip(uploads, held, strict=True):
                    answer = service.answer(upload, question, client, gone, slot)
                    tasks.append(asyncio.ensure_future(answer))
                try:
                    documents = await asyncio.gather(*tasks)
                finally:
                    # If one is refused, the whole request is, and nobody waits for the others.
                    for task in tasks:
                        task.cancel()
        entries = [document["recordings"][0] for document in documents]
        outputs = {
            SCORES: np.asarray([entry["score"] for entry in entries], np.float32),
            VERDICTS: np.asarray([entry["verdict"] or "" for entry in entries], object),
            ENTRIES: np.asarray([json.dumps(entry) for entry in entries], object),
        }
        content, header = tensors.write_answer(asked, name, outputs)
        if header is None:
            return Response(content, media_type="application/json")
        headers = {tensors.HEADER_LENGTH: str(header)}
        return Response(content, headers=headers, media_type="application/octet-stream")

    def _check(self, name: str, version: str) -> None:
        """Raise a 404 unless this is the network."""
        if name != self._model:
            raise HTTPException(
                404, f"there is no model {name!r}; this service has {self._model!r}."
            )
        if version != _VERSION:
            raise HTTPException(
                404, f"there is no version {version!r}; this service has {_VERSION!r}."
            )


def add_inference_paths(
    app: FastAPI, service: Service, admit: Callable[[Request], str]
) -> InferencePaths:
    """Add the routes of the protocol to an application."""
    paths = InferencePaths(service, admit)
    model = "/v2/models/{name}"
    asked: list[tuple[str, Callable[..., Any]]] = [
        ("/v2", paths.server),
        ("/v2/health/live", paths.live),
        ("/v2/health/ready", paths.ready),
    ]
    for of_version in (model, f"{model}/versions/{{version}}"):
        asked += [(of_version, paths.model), (f"{of_version}/ready", paths.model_ready)]
        app.add_api_route(
            f"{of_version}/infer", paths.infer, methods=["POST"], include_in_schema=False
        )
    for path, endpoint in asked:
        app.add_api_route(path, endpoint, include_in_schema=False)
    return paths


def _read_uploads(asked: tensors.Request, usual_rate: int, most: int) -> list[Upload]:
    """Return the recordings of a request, one per row.

    Args:
        usual_rate: Sampling rate if the request has none, in Hz.
        most: Maximum number of recordings.

    Raises:
        Refusal: 400, there are none, or the lengths or the rate do not fit; 413, there are too
            many.
    """
    unknown = set(asked.inputs) - {WAVEFORMS, LENGTHS, RATE}
    waveforms = asked.inputs.get(WAVEFORMS)
    if unknown or waveforms is None:
        raise Refusal(
            400,
            f"the inputs are {WAVEFORMS}, and where needed {LENGTHS} and {RATE}; the request has "
            f"{', '.join(map(repr, asked.inputs)) or 'none'}.",
        )
    rows = waveforms.reshape(-1, waveforms.shape[-1])
    if waveforms.ndim > 2 or waveforms.dtype != np.float32:
        raise Refusal(400, f"{WAVEFORMS} are FP32, of shape [samples] or [recordings, samples].")
    if len(rows) > most:
        raise Refusal(413, f"{len(rows)} recordings in a request: send {most} at most at a time.")
    lengths = asked.inputs.get(LENGTHS, np.full(len(rows), rows.shape[1])).ravel()
    if lengths.dtype.kind != "i":
        raise Refusal(400, f"{LENGTHS} are whole numbers: INT32.")
    if len(lengths) != len(rows) or lengths.min() < 1 or lengths.max() > rows.shape[1]:
        raise Refusal(400, f"{LENGTHS} are samples of each of the {len(rows)} recordings.")
    rate = asked.parameters.get(RATE)
    if rate is None:
        rate = usual_rate
    if RATE in asked.inputs:
        rate = asked.inputs[RATE].ravel()[0].item()
    uploads = []
    for row, length in zip(rows, lengths, strict=True):
        uploads.append(Upload(row[: int(length)].astype("<f4").tobytes(), rate=rate))
    return uploads
