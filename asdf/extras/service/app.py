"""The routes of a service: /score, /ready, /metrics, its description, and the page.

Invariant: no answer refers to an address outside of the service, and a page may load nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from asdf.errors import UsageError
from asdf.extras.service.access import Names, Token
from asdf.extras.service.answers import (
    HealthAnswer,
    LiveAnswer,
    ReadyAnswer,
    RefusalAnswer,
    ScoreAnswer,
    VersionAnswer,
)
from asdf.extras.service.exchange import Exchanges, refusal_response
from asdf.extras.service.limits import Refusal
from asdf.extras.service.page_files import PageFiles
from asdf.extras.service.service import Question, Service
from asdf.extras.service.uploads import read_upload, watch_client
from asdf.facts import AUDIO_SUFFIXES
from asdf.scoring.parts import part_window
from asdf.version import VERSION

_MAX_POINTS = 4000
_OUTLINE = Query(
    ge=0, le=_MAX_POINTS, description="Points of the waveform's outline, for a picture."
)
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_FORM: dict[str, Any] = {
    "schema": {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {"type": "string", "format": "binary"},
            "rttm": {
                "type": "string",
                "format": "binary",
                "description": "Turns of the recording's speakers: adds a score for each of them.",
            },
        },
    }
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": _BINARY, "multipart/form-data": _FORM},
    }
}
_REFUSALS = {
    400: "The form cannot be read.",
    401: "The token is missing or wrong.",
    403: "The request comes from a page of another site.",
    408: "The recording did not arrive in time.",
    413: "The recording is too large.",
    415: "The content type is not one of recordings.",
    421: "The service is not known by the host name of the request.",
    422: "The recording cannot be decoded or is too long, or windows leave parts of it out.",
    500: "The network fails.",
    503: "The service is full or not ready; Retry-After states when to try again.",
}
_REFUSAL_ANSWERS: dict[int | str, dict[str, Any]] = {
    status: {"model": RefusalAnswer, "description": meaning}
    for status, meaning in _REFUSALS.items()
}


def make_app(service: Service, token: Token | None, names: Names) -> ASGIApp:
    """Make the application.

    Args:
        token: Bearer token required for /score and /metrics; None: no authentication.
        names: Host names of the service.
    """

    @asynccontextmanager
    async def closing(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="ASDF",
        summary="Distinguishes genuine speech from spoofed speech.",
        version=VERSION,
        # FastAPI's own pages load scripts from another site.
        docs_url=None,
        redoc_url=None,
        lifespan=closing,
    )
    about = {**describe_service(service), "token": token is not None}
    paths = _Paths(service, token, app, about, PageFiles(about))
    app.add_api_route(
        "/score",
        paths.score,
        methods=["POST"],
        response_model=ScoreAnswer,
        responses=_REFUSAL_ANSWERS,
        openapi_extra=_BODY,
        summary="Score a recording",
        response_description="The score.",
        tags=["scores"],
    )
    _add_operation(app, paths)
    app.add_api_route("/", paths.page, include_in_schema=False)
    app.add_api_route("/docs", paths.docs, include_in_schema=False)
    app.add_api_route("/page/{name}", paths.page_file, include_in_schema=False)
    _answer_refusals(app)
    return Exchanges(app, service.counts, names)


def _add_operation(app: FastAPI, paths: _Paths) -> None:
    """Add the routes for monitoring and orchestration."""
    asked = (
        ("/health", paths.health, HealthAnswer, "Whether recordings are taken"),
        (
            "/ready",
            paths.ready,
            ReadyAnswer,
            "Whether recordings are accepted, and by which network",
        ),
        ("/live", paths.live, LiveAnswer, "Whether the service works, or needs a restart"),
    )
    for path, endpoint, answer, summary in asked:
        app.add_api_route(
            path,
            endpoint,
            response_model=answer,
            responses={503: {"model": answer, "description": "No; `problem` states why."}},
            summary=summary,
            response_description="Yes.",
            tags=["operation"],
        )
    app.add_api_route(
        "/version",
        paths.version,
        response_model=VersionAnswer,
        summary="Versions, and the network",
        response_description="The versions and the network's digest.",
        tags=["operation"],
    )
    app.add_api_route(
        "/metrics",
        paths.metrics,
        summary="Metrics in Prometheus' format",
        response_description="The metrics, as text.",
        tags=["operation"],
    )


def describe_service(service: Service) -> dict[str, Any]:
    """Return the facts about a detector and the limits for the page."""
    detector = service.detector
    limits = service.limits
    heading = service.documents.of_whole
    provenance = service.documents.provenance
    length = f"{limits.max_seconds:g} seconds"
    if limits.max_seconds >= 120:
        length = f"{limits.max_seconds / 60:g} minutes"
    return {
        "asdf": provenance.asdf,
        "torch": provenance.torch,
        "network_sha256": provenance.network_sha256,
        "network": heading.network,
        "kind": heading.kind,
        "threshold": heading.threshold,
        "decision": heading.decision,
        "calibration": heading.calibration,
        "scores": heading.scores,
        "max_mb": limits.max_mb,
        "max_seconds": limits.max_seconds,
        "limits": f"{limits.max_mb:g} MB and {length}",
        "window_s": part_window(detector.length, detector.window_samples) / detector.sample_rate,
        "suffixes": sorted(AUDIO_SUFFIXES),
    }


@dataclass(frozen=True)
class _Paths:
    """The handlers of the routes.

    Attributes:
        about: Facts about the network and the limits, for the page and /version.
    """

    service: Service
    token: Token | None
    app: FastAPI
    about: dict[str, Any]
    files: PageFiles

    async def score(
        self,
        request: Request,
        window: Annotated[
            float | None, Query(description="Seconds of a window: scores over time as well.")
        ] = None,
        hop: Annotated[
            float | None,
            Query(
                description="Seconds from the start of a window to the next; else half a window."
            ),
        ] = None,
        trial: Annotated[
            bool,
            Query(description="Score the beginning only, as a trial of the network's protocol."),
        ] = False,
        outline: Annotated[int, _OUTLINE] = 0,
    ) -> Response:
        """The answer is what `python -m asdf score --json` writes of the recording."""
        self._check_token(request)
        if window is None and hop is not None:
            raise UsageError("hop is the distance between windows: set window too.")
        windows = None
        if window is not None:
            windows = (window, window / 2 if hop is None else hop)
        question = Question(windows, trial, outline)
        self.service.check_question(question)
        service = self.service
        with service.slot() as slot:
            upload = await read_upload(request, service.limits)
            async with watch_client(request) as gone:
                document = await service.answer(upload, question, gone, slot)
        return JSONResponse(document)

    async def health(self) -> Response:
        """503 while the network warms up or fails."""
        problem = self.service.problem
        return JSONResponse({"ready": not problem, "problem": problem}, 503 if problem else 200)

    async def ready(self) -> Response:
        """503 as of `/health`; the network is that of new requests."""
        problem = self.service.problem
        digest = self.about["network_sha256"]
        answer = {"ready": not problem, "problem": problem, "network_sha256": digest}
        return JSONResponse(answer, 503 if problem else 200)

    async def live(self) -> Response:
        """503 where only a new start helps: the device hangs. It warms up alive."""
        is_live = self.service.is_live
        problem = "" if is_live else "a forward pass of the network does not return"
        return JSONResponse({"live": is_live, "problem": problem}, 200 if is_live else 503)

    async def metrics(self, request: Request) -> Response:
        """They need the token, as scores do."""
        self._check_token(request)
        return Response(self.service.counts.as_text(), media_type="text/plain; version=0.0.4")

    async def version(self) -> Response:
        """The same is in `made_by` of each score."""
        return JSONResponse({name: self.about[name] for name in VersionAnswer.model_fields})

    async def page(self) -> Response:
        return HTMLResponse(self.files.page)

    async def docs(self) -> Response:
        return HTMLResponse(self.files.describe(self.app.openapi()))

    async def page_file(self, name: str) -> Response:
        file = self.files.find(name)
        if file is None:
            raise HTTPException(404)
        return Response(file.content, media_type=file.kind)

    def _check_token(self, request: Request) -> None:
        if self.token is not None:
            self.token.check(request.headers.get("authorization", ""))


def _answer_refusals(app: FastAPI) -> None:
    """Answer every refusal with {"error": "..."}."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> Response:
        return refusal_response(error)

    @app.exception_handler(UsageError)
    async def meant_otherwise(_: Request, error: UsageError) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        name = first["loc"][-1]
        return JSONResponse({"error": f"{name}: {first['msg']}."}, 422)

    # The traceback is in the log.
    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        kind = type(error).__name__
        return JSONResponse({"error": f"the service failed ({kind}): see its log."}, 500)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
