"""The routes of a service: /score, /ready, /metrics, its description, and the page.

Invariant: no answer refers to an address outside of the service, and a page may load nothing else.

The page's files, and the description of the routes as a page without scripts.

Invariant: all addresses in a page are the service's own; the files sent are part of this package
and are read once. The style, and the scripts of elements and themes, are those of the report
(`asdf.report`).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
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
    stated_columns,
)
from asdf.extras.service.exchange import Exchanges, refusal_response
from asdf.extras.service.limits import Refusal
from asdf.extras.service.service import Asked, Service
from asdf.extras.service.uploads import read_upload, unknown_name, watch_client
from asdf.facts import AUDIO_SUFFIXES
from asdf.scoring.parts import part_window
from asdf.version import VERSION

_SCRIPTS = (
    *("dom", "words", "upload", "microphone", "picture", "result", "list", "asking", "service"),
)
# The rest of the page: the microphone's script loads the recorder's, which has its own thread.
_FILES = (
    *("style.css", "plots.css", "service.css", "icon.svg", "theme.js", "recorder.js"),
    *(f"{name}.js" for name in _SCRIPTS),
)
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_CODE = re.compile(r"`([^`]*)`")


def _mark(text: str) -> Markup:
    """Return a text as HTML, with code between backticks."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


class PageFiles:
    """The files of the page.

    Attributes:
        page: HTML of the page itself.
        contents: Content and media type of each other file, by name.
    """

    def __init__(self, about: dict[str, Any]) -> None:
        """Read the files; `about` is the page's data on the detector and the limits."""
        self.contents: dict[str, tuple[bytes, str]] = {}
        for name in _FILES:
            own = files("asdf.extras.service") / "page" / name
            path = own if own.is_file() else files("asdf.report") / "page" / name
            self.contents[name] = (path.read_bytes(), _KINDS[name.rpartition(".")[2]])
        self._templates = Environment(
            loader=PackageLoader("asdf.extras.service", "page"),
            autoescape=True,
            undefined=StrictUndefined,  # a misspelt name is an error instead of a gap
            trim_blocks=True,
        )
        self._templates.filters["marked"] = _mark
        # Within a script element, no '<' may begin a tag.
        data = json.dumps(about).replace("<", "\\u003c")
        page = self._templates.get_template("page.html")
        self.page = page.render(about=about, data=data, scripts=_SCRIPTS)

    def describe(self, openapi: dict[str, Any]) -> str:
        """Return the HTML page of an OpenAPI description."""
        return self._templates.get_template("docs.html").render(api=openapi)


_FILE = {"type": "string", "format": "binary"}
_TURNS = "Turns of the recording's speakers: adds a score for each of them."
_FORM = {
    "type": "object",
    "required": ["file"],
    "properties": {"file": _FILE, "rttm": {**_FILE, "description": _TURNS}},
}
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": _FILE},
            "multipart/form-data": {"schema": _FORM},
        },
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
    422: "The recording cannot be decoded or is too long, or the question has a mistake.",
    500: "The network fails.",
    503: "The service is full or not ready; Retry-After states when to try again.",
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
    _add_scores(app, service, token)
    _add_operation(app, service, token, about)
    _add_pages(app, PageFiles(about))
    _answer_refusals(app)
    return Exchanges(app, service.counts, names)


def describe_service(service: Service) -> dict[str, Any]:
    """Return the facts about a detector and the limits for the page."""
    detector = service.detector
    limits = service.limits
    heading = service.documents.of_whole
    provenance = service.documents.provenance
    made = {name: getattr(provenance, name) for name in ("asdf", "torch", "network_sha256")}
    names = ("network", "kind", "threshold", "decision", "calibration", "scores", "remark")
    return {
        **made,
        **{name: getattr(heading, name) for name in names},
        "max_mb": limits.max_mb,
        "max_seconds": limits.max_seconds,
        "limits": f"{limits.max_mb:g} MB and {limits.max_seconds / 60:g} minutes",
        "window_s": part_window(detector.length, detector.window_samples) / detector.sample_rate,
        "suffixes": sorted(AUDIO_SUFFIXES),
        "columns": stated_columns(),
    }


def _add_scores(app: FastAPI, service: Service, token: Token | None) -> None:
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"model": RefusalAnswer, "description": meaning}
        for status, meaning in _REFUSALS.items()
    }

    @app.post(
        "/score",
        response_model=ScoreAnswer,
        responses=refusals,
        openapi_extra=_BODY,
        summary="Score a recording",
        response_description="The score.",
        tags=["scores"],
    )
    async def score(request: Request, asked: Annotated[Asked, Query()]) -> Response:
        """The answer is what `python -m asdf score --json` writes of the recording."""
        _check_token(token, request)
        detector = service.detector
        asked.check(detector.window_samples, detector.sample_rate)
        with service.slot() as slot:
            hold = partial(service.enlarge, slot, seconds=0)
            upload = await read_upload(request, service.limits, hold)
            async with watch_client(request) as gone:
                document = await service.answer(upload, asked, gone, slot)
        return JSONResponse(document)


def _add_operation(
    app: FastAPI, service: Service, token: Token | None, about: dict[str, Any]
) -> None:
    """Add the routes for monitoring and orchestration."""

    def described(answer: type[HealthAnswer | LiveAnswer], summary: str) -> dict[str, Any]:
        return {
            "response_model": answer,
            "responses": {503: {"model": answer, "description": "No; `problem` states why."}},
            "summary": summary,
            "response_description": "Yes.",
            "tags": ["operation"],
        }

    def is_ready(**more: Any) -> Response:
        problem = service.problem
        left = service.passes.seconds_left
        answer = {"ready": not problem, "problem": problem, "seconds_left": left, **more}
        return JSONResponse(answer, 503 if problem else 200)

    @app.get("/health", **described(HealthAnswer, "Whether recordings are taken"))
    async def health() -> Response:
        """503 while the network warms up or fails."""
        return is_ready()

    @app.get(
        "/ready", **described(ReadyAnswer, "Whether recordings are accepted, and by which network")
    )
    async def ready() -> Response:
        """503 as of `/health`."""
        return is_ready(network_sha256=about["network_sha256"])

    @app.get("/live", **described(LiveAnswer, "Whether the service works, or needs a restart"))
    async def live() -> Response:
        """503 where only a new start helps: the device hangs."""
        is_live = service.is_live
        problem = "" if is_live else "a forward pass of the network does not return"
        return JSONResponse({"live": is_live, "problem": problem}, 200 if is_live else 503)

    @app.get(
        "/version",
        response_model=VersionAnswer,
        summary="Versions, and the network",
        response_description="The versions and the network's digest.",
        tags=["operation"],
    )
    async def version() -> Response:
        """The same is in `made_by` of each score."""
        return JSONResponse({name: about[name] for name in VersionAnswer.model_fields})

    @app.get(
        "/metrics",
        summary="Metrics in Prometheus' format",
        response_description="The metrics, as text.",
        tags=["operation"],
    )
    async def metrics(request: Request) -> Response:
        """They need the token, as scores do."""
        _check_token(token, request)
        return Response(service.counts.as_text(), media_type="text/plain; version=0.0.4")


def _add_pages(app: FastAPI, files: PageFiles) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return HTMLResponse(files.page)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(files.describe(app.openapi()))

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        if name not in files.contents:
            raise HTTPException(404)
        content, kind = files.contents[name]
        return Response(content, media_type=kind)


def _check_token(token: Token | None, request: Request) -> None:
    if token is not None:
        token.check(request.headers.get("authorization", ""))


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
        if first["type"] == "extra_forbidden":
            return refusal_response(unknown_name("parameter", name, Asked.model_fields))
        return JSONResponse({"error": f"{name}: {first['msg']}."}, 422)

    # The traceback is in the log.
    @app.exception_handler(Exception)
    async def failed(_: Request, error: Exception) -> Response:
        kind = type(error).__name__
        return JSONResponse({"error": f"the service failed ({kind}): see its log."}, 500)

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
