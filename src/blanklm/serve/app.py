"""The HTTP application: routes, errors and the lifetime of a request.

A request is prepared in a thread of the event loop's pool, processed by the one ``Worker``, and answered when all its
texts are done or its deadline passes; if its client leaves, it is stopped.
"""

# No ``from __future__ import annotations`` here: FastAPI reads the types of endpoints, which are local variables.
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
from pydantic import BaseModel, ConfigDict, create_model
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.routing import Route

from blanklm import __version__
from blanklm.errors import BlankLMError
from blanklm.serve.events import EVENT_SCHEMA
from blanklm.serve.guard import Guard, refusal_response
from blanklm.serve.limits import Limits, Refusal, deadline_passed
from blanklm.serve.loading import Product
from blanklm.serve.memory import give_back_forever
from blanklm.serve.prometheus import Metrics, MetricsMiddleware
from blanklm.serve.tasks import TASKS
from blanklm.serve.tasks.task import Task, TaskBody, check_characters
from blanklm.serve.worker import Client, Job, Stopped, Worker

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
    styles: list[str]  # that it writes in, if it rewrites texts


class ModelsAnswer(BaseModel):
    models: list[ModelRecord]


class Status(BaseModel):
    status: str
    version: str


REFUSALS = {
    400: "not JSON, or a Host header that is not this server's",
    401: "the token is missing or wrong",
    404: "no such model",
    408: "the body was sent too slowly",
    413: "the body is too large",
    415: "the Content-Type is not JSON",
    422: "a field is wrong",
    429: "too many texts are waiting; Retry-After says when to try again",
    503: "shutting down",
    504: "the deadline has passed",
}


class Service:
    """The state that the endpoints share: models, worker, limits and metrics."""

    def __init__(self, models: Mapping[str, Product], limits: Limits) -> None:
        self.models, self.limits, self.metrics = dict(models), limits, Metrics()
        self.worker = Worker(limits, self.metrics.observe, self.metrics.count)
        self.metrics.watch(self.worker)

    def models_for(self, task: Task) -> list[str]:
        """Return the names of the models that can do a task, its default first."""
        return [name for name, model in self.models.items() if task.takes(model)]

    async def jobs(self, task: Task, body: TaskBody) -> Sequence[Job]:
        """Return the jobs of a request, not yet submitted."""
        check_characters(body.model_dump())
        names = self.models_for(task)
        if body.model is not None and body.model not in names:
            message = f"there is no model {body.model!r} for this task: choose {', '.join(names)}"
            raise Refusal(404, "no_such_model", message, "model")
        deadline = time.monotonic() + min(self.limits.deadline, body.deadline or self.limits.deadline)
        models = {name: self.models[name] for name in ([body.model] if body.model is not None else names)}
        return await run_in_threadpool(task.jobs, models, body, self.limits, Client(deadline))

    async def wait_for(self, jobs: Sequence[Job], request: Request) -> None:
        """Wait for all jobs; when the deadline passes or the client leaves, stop the rest."""
        answers = (asyncio.wrap_future(job.answer) for job in jobs)
        done: asyncio.Future[Any] = asyncio.gather(*answers, return_exceptions=True)
        gone: asyncio.Future[Any] = asyncio.create_task(_disconnect(request))
        client = jobs[0].client
        try:
            seconds = client.deadline - time.monotonic()
            await asyncio.wait({done, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise Refusal(499, "gone", "the client has left") if gone.done() else deadline_passed()
        finally:
            client.left = True
            gone.cancel()

    def model_records(self) -> list[dict[str, Any]]:
        return [
            {
                "name": name,
                "default": name == next(iter(self.models)),
                "tasks": [task.name for task in TASKS if task.takes(model)],
                "tokens": model.tokenizer.kind,
                "max_length": model.longest,
                "parameters": model.parameters,
                **{key: str(model.about.get(key, "")) for key in ("language", "licence", "summary")},
                "styles": list(getattr(model, "styles", ())),
            }
            for name, model in self.models.items()
        ]


def check_answer(job: Job, place: int) -> None:
    """Raise the reason why the finished job of a text has no answer, if it has none."""
    error = job.answer.exception()
    if isinstance(error, BlankLMError):
        raise Refusal(422, "no_fill", str(error), f"texts[{place}]")
    if isinstance(error, Stopped) or (error is None and job.answer.result() is None):
        raise deadline_passed()
    if error is not None:
        LOG.error("a %s job failed", job.task, exc_info=error)
        raise internal_error()


def internal_error() -> Refusal:
    return Refusal(500, "internal", "internal error: see the log of the server")


async def _disconnect(request: Request) -> None:
    """Wait until the client leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def create_app(
    models: Mapping[str, Product],
    limits: Limits | None = None,
    token: str | None = None,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
) -> FastAPI:
    """Create the application for these models, the first of which is the default.

    ``token``: the bearer token that clients must send. ``hosts``: the names it answers to, any by default.
    ``origins``: other sites whose pages may call the API.
    """
    limits = limits or Limits()
    service = Service(models, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
        giving_back = asyncio.create_task(give_back_forever())
        yield
        giving_back.cancel()
        await run_in_threadpool(service.worker.close)

    app = FastAPI(
        title="blanklm",
        version=__version__,
        description="Fill blanks of any length in text. A blank is written ___, ___[3] or ___[2-5].",
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((Refusal, RequestValidationError, HTTPException, Exception), refuse),
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    # The guard checks the token; this only documents it in the schema.
    security = [Depends(HTTPBearer(auto_error=False))] if token is not None else []
    for task in TASKS:
        if service.models_for(task):
            _add_endpoint(app, service, task, security)
    _add_pages(app, service, security)
    # The last one added is the outermost: count all requests, then CORS (preflights come without a token), then guard.
    app.add_middleware(Guard, limits=limits, token=token, hosts=hosts)
    if origins:
        app.add_middleware(CORSMiddleware, allow_origins=list(origins), allow_methods=["*"], allow_headers=["*"])
    paths = {route.path for route in app.routes if isinstance(route, Route)}
    app.add_middleware(MetricsMiddleware, metrics=service.metrics, paths=paths)
    return app


def _add_endpoint(app: FastAPI, service: Service, task: Task, security: Sequence[Any]) -> None:
    results_type = list[task.Result]  # type: ignore[name-defined]  # a type known at run time
    answer = create_model(
        f"{task.name.capitalize()}Answer",
        __config__=ConfigDict(use_attribute_docstrings=True),  # for results that are TypedDicts
        model=(str, ...),
        results=(results_type, ...),
    )
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorAnswer, "description": reason} for status, reason in REFUSALS.items()
    }
    if "stream" in task.Body.model_fields:
        responses[200] = {"content": {"text/event-stream": {"schema": EVENT_SCHEMA}}}

    async def endpoint(request: Request, body: TaskBody) -> Response:
        jobs = await service.jobs(task, body)

        def result_of(job: Job, place: int) -> dict[str, Any]:
            check_answer(job, place)
            return task.results(body, [job])[0]

        if getattr(body, "stream", False):
            stream = task.stream(body, jobs, service.limits, result_of)
            service.worker.submit(jobs)
            headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}  # for proxies in between
            return StreamingResponse(stream.events(), media_type="text/event-stream", headers=headers)
        service.worker.submit(jobs)
        await service.wait_for(jobs, request)
        for place, job in enumerate(jobs):
            check_answer(job, place)
        results = task.results(body, jobs)
        name = task.answered_by(body.model or service.models_for(task)[0], results)
        return JSONResponse({"model": name, "results": results})

    endpoint.__annotations__["body"] = task.Body  # what FastAPI parses and documents
    app.post(
        f"/v1/{task.name}",
        summary=task.summary,
        response_model=answer,
        responses=responses,
        name=task.name,
        dependencies=security,
    )(endpoint)


def _add_pages(app: FastAPI, service: Service, security: Sequence[Any]) -> None:
    @app.get("/v1/models", summary="The models that are served.", dependencies=security, response_model=ModelsAnswer)
    async def models() -> dict[str, Any]:
        return {"models": service.model_records()}

    @app.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Status:
        return Status(status="alive", version=__version__)

    @app.get("/readyz", summary="Does it accept requests?", responses={503: {"model": ErrorAnswer}})
    async def readyz() -> Status:
        if not service.worker.ready:
            raise Refusal(503, "not_ready", "the worker is not running: try again later")
        return Status(status="ready", version=__version__)

    @app.get("/metrics", summary="For Prometheus.", response_class=Response, include_in_schema=False)
    async def metrics() -> Response:
        return Response(service.metrics.page(), media_type=service.metrics.content_type)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=STATIC))


async def refuse(request: Request, error: Exception) -> JSONResponse:
    """Answer an error with its refusal."""
    if isinstance(error, RequestValidationError):
        error = _refusal_of_body(request, error)
    elif isinstance(error, HTTPException):
        codes = {404: "not_found", 405: "method_not_allowed", 400: "not_json"}
        code, headers = codes.get(error.status_code, "http"), dict(error.headers or {})
        error = Refusal(error.status_code, code, str(error.detail), None, headers)
    return refusal_response(error if isinstance(error, Refusal) else internal_error())


def _refusal_of_body(request: Request, error: RequestValidationError) -> Refusal:
    # Of the alternatives of a union, report the one that matched furthest: it is what the client meant.
    first = max(error.errors(), key=lambda e: len(e["loc"]))
    if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
        return Refusal(415, "not_json", "send JSON, with the header Content-Type: application/json")
    if first["type"] == "json_invalid":
        return Refusal(400, "not_json", f"the body is not JSON: {first['ctx']['error']}")
    return Refusal(422, "invalid", first["msg"], field_name(first["loc"]))


def field_name(place: Sequence[str | int]) -> str | None:
    """Return, for example, ``texts[0].constraints[1].min`` for the path of a validation error, without type names."""
    name = ""
    for part in place[1:]:
        if isinstance(part, int):
            name += f"[{part}]"
        elif part.isidentifier() and part.islower() and part not in ("str", "bool", "int"):
            name += f".{part}" if name else part
    return name or None
