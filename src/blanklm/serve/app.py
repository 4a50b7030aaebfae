"""The HTTP application: routes, errors and the lifetime of a request.

A request is prepared in a thread of the event loop's pool, worked on by the one worker of ``batching``, and answered
when all its texts are done, when its deadline passes, or not at all when its client leaves.
"""

# No ``from __future__ import annotations`` here: FastAPI reads the types of endpoints, which are made in a function.
import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from fastapi.security import HTTPBearer
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, create_model
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from blanklm import __version__
from blanklm.api import BlankLM
from blanklm.errors import BlankLMError
from blanklm.serve.events import EVENT_SCHEMA, Stream
from blanklm.serve.guard import Guard, refused
from blanklm.serve.limits import Limits, Refusal, out_of_time
from blanklm.serve.prometheus import Measured, Metrics
from blanklm.serve.tasks import TASKS
from blanklm.serve.tasks.task import Task, TaskBody
from blanklm.serve.worker import Batcher, Job, Stopped

LOG = logging.getLogger("uvicorn.error")
STATIC = Path(__file__).parent / "static"


class ErrorDetail(BaseModel):
    code: str
    message: str
    field: str | None


class ErrorAnswer(BaseModel):
    error: ErrorDetail


class ModelRecord(BaseModel):
    name: str
    default: bool
    tasks: list[str]
    tokens: str  # word, character or bpe
    max_length: int
    parameters: int
    language: str
    licence: str
    summary: str
    styles: list[str]  # that it writes in, where it rewrites texts


class ModelsAnswer(BaseModel):
    models: list[ModelRecord]


class Status(BaseModel):
    status: str
    version: str


REFUSALS = {
    400: "not JSON, or a Host header that is not this server's",
    401: "the token is missing or wrong",
    404: "no such model",
    408: "the body took too long to come",
    413: "the body is too large",
    415: "the body is not said to be JSON",
    422: "a field is wrong",
    429: "too many texts are waiting; Retry-After says when to come again",
    503: "shutting down",
    504: "the deadline has passed",
}


class Service:
    """The models, the worker and the limits: all that the endpoints share."""

    def __init__(self, models: Mapping[str, BlankLM], limits: Limits) -> None:
        self.models, self.limits, self.metrics = dict(models), limits, Metrics()
        self.batcher = Batcher(limits, self.metrics.observe)
        self.metrics.watch(self.batcher)

    def able(self, task: Task) -> list[str]:
        """The models that can do a task, its default first."""
        return [name for name, model in self.models.items() if task.takes(model)]

    async def jobs(self, task: Task, body: TaskBody) -> Sequence[Job]:
        """The jobs of a request, not yet submitted."""
        able = self.able(task)
        if body.model is not None and body.model not in able:
            message = f"there is no model {body.model!r} for this: served are {', '.join(able)}"
            raise Refusal(404, "no_such_model", message, "model")
        deadline = time.monotonic() + min(self.limits.deadline, body.deadline or self.limits.deadline)
        models = {name: self.models[name] for name in ([body.model] if body.model is not None else able)}
        return await run_in_threadpool(task.jobs_with, models, body, self.limits, deadline)

    async def finished(self, jobs: Sequence[Job], request: Request) -> None:
        """Wait for all the jobs; when the deadline passes or the client leaves, what is left of them is stopped."""
        done = asyncio.gather(*(asyncio.wrap_future(job.answer) for job in jobs), return_exceptions=True)
        gone = asyncio.create_task(_disconnected(request))
        try:
            seconds = jobs[0].deadline - time.monotonic()
            await asyncio.wait({done, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise out_of_time() if not gone.done() else Refusal(499, "gone", "the client has left")
        finally:
            for job in jobs:
                job.leave()
            gone.cancel()

    def models_records(self) -> list[dict]:
        return [
            {
                "name": name,
                "default": name == next(iter(self.models)),
                "tasks": [task.name for task in TASKS if task.takes(model)],
                "tokens": model.tokenizer.kind,
                "max_length": model.longest,
                "parameters": model.parameters,
                "styles": list(getattr(model, "styles", ())),
                **{key: str(model.about.get(key, "")) for key in ("language", "licence", "summary")},
            }
            for name, model in self.models.items()
        ]


def refusal_of(job: Job, place: int) -> Refusal | None:
    """Why a job that has ended has no answer, None if it has one."""
    error = job.answer.exception()
    if isinstance(error, BlankLMError):
        return Refusal(422, "no_fill", str(error), f"texts[{place}]")
    if isinstance(error, Stopped) or (error is None and job.answer.result() is None):
        return out_of_time()
    if error is not None:
        LOG.error("a %s job has failed", job.task, exc_info=error)
        return internal()
    return None


def internal() -> Refusal:
    return Refusal(500, "internal", "the server has made a mistake: its log says which")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(
    models: Mapping[str, BlankLM],
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
) -> FastAPI:
    """The application for these models, the first of which is the default.

    ``token``: what clients must send as a bearer token. ``hosts``: the names it answers to, any by default.
    ``origins``: other sites whose pages may call the API.
    """
    limits = limits or Limits()
    service = Service(models, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.start()
        yield
        await run_in_threadpool(service.batcher.close)

    app = FastAPI(
        title="blanklm",
        version=__version__,
        description="Fill blanks of any length in text. A blank is written ___, ___[3] or ___[2-5].",
        lifespan=lifespan,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    wanted = [Depends(HTTPBearer(auto_error=False))] if token is not None else []  # the guard checks, the schema tells
    for task in TASKS:
        if service.able(task):
            _add_endpoint(app, service, task, wanted)
    _add_pages(app, service, wanted)
    _add_error_handlers(app)
    # The last added stands outermost: count everything, then CORS (browsers ask first, without a token), then guard.
    app.add_middleware(Guard, limits=limits, token=token, hosts=hosts)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    paths = {route.path for route in app.routes if hasattr(route, "methods")}
    app.add_middleware(Measured, metrics=service.metrics, paths=paths)
    return app


def _add_endpoint(app: FastAPI, service: Service, task: Task, wanted: Sequence[Any]) -> None:
    title = task.name.capitalize()
    answer = create_model(f"{title}Answer", model=(str, ...), results=(list[task.Result], ...))
    responses = {status: {"model": ErrorAnswer, "description": why} for status, why in REFUSALS.items()}
    if "stream" in task.Body.model_fields:
        responses[200] = {"content": {"text/event-stream": {"schema": EVENT_SCHEMA}}}

    @app.post(
        f"/v1/{task.name}",
        summary=task.summary,
        response_model=answer,
        responses=responses,
        name=task.name,
        dependencies=wanted,
    )
    async def endpoint(request: Request, body: task.Body) -> Response:
        jobs = await service.jobs(task, body)

        def result(job: Job, place: int) -> dict:
            refusal = refusal_of(job, place)
            if refusal is not None:
                raise refusal
            return task.results(body, [job])[0]

        if getattr(body, "stream", False):
            stream = Stream(jobs, body.live, result)
            service.batcher.submit(jobs)
            headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # for what stands between us
            return StreamingResponse(stream.events(), media_type="text/event-stream", headers=headers)
        service.batcher.submit(jobs)
        await service.finished(jobs, request)
        for place, job in enumerate(jobs):
            if (refusal := refusal_of(job, place)) is not None:
                raise refusal
        results = task.results(body, jobs)
        return JSONResponse(
            {"model": task.answered_by(body.model or service.able(task)[0], results), "results": results}
        )


def _add_pages(app: FastAPI, service: Service, wanted: Sequence[Any]) -> None:
    @app.get("/v1/models", summary="The models that are served.", dependencies=wanted)
    async def models() -> ModelsAnswer:
        return ModelsAnswer(models=service.models_records())

    @app.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Status:
        return Status(status="alive", version=__version__)

    @app.get("/readyz", summary="Does it take requests?", responses={503: {"model": ErrorAnswer}})
    async def readyz() -> Status:
        if not service.batcher.ready:
            raise Refusal(503, "not_ready", "the worker is not running")
        return Status(status="ready", version=__version__)

    @app.get("/metrics", summary="For Prometheus.", response_class=Response, include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type=service.metrics.content_type)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC))


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refuse(request: Request, refusal: Refusal) -> JSONResponse:
        return refused(refusal)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Of the alternatives of a union, the one that was followed furthest is what the client meant.
        first = max(error.errors(), key=lambda e: len(e["loc"]))
        if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
            return refused(Refusal(415, "not_json", "send JSON, with the header Content-Type: application/json"))
        if first["type"] == "json_invalid":
            return refused(Refusal(400, "not_json", f"the body is not JSON: {first['ctx']['error']}"))
        return refused(Refusal(422, "invalid", first["msg"], field_name(first["loc"])))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "method_not_allowed", 400: "not_json"}
        return refused(
            Refusal(error.status_code, codes.get(error.status_code, "http"), str(error.detail), None, error.headers)
        )

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        return refused(internal())


def field_name(place: Sequence[str | int]) -> str | None:
    """``texts[0].constraints[1].min`` from the path of a validation error, without the names of types in it."""
    name = ""
    for part in place[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        elif part.isidentifier() and part.islower() and part not in ("str", "bool", "int"):
            name += f".{part}" if name else part
    return name or None
