"""Metrics for Prometheus: requests, texts, batches, the queue, and the memory of the process."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blanklm.serve.worker import Job, Worker

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one server; several servers in one process, as in tests, have one each."""

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter("blanklm_requests", "Requests answered.", ["path", "status"], registry=registry)
        self.seconds = Histogram(
            "blanklm_request_seconds", "Time to answer.", ["path"], registry=registry, buckets=SECONDS
        )
        self.texts = Counter("blanklm_texts", "Texts taken, by how they ended.", ["task", "outcome"], registry=registry)
        self.batches = Histogram("blanklm_batch_texts", "Texts in a batch.", registry=registry, buckets=TEXTS)
        self.batch_seconds = Histogram("blanklm_batch_seconds", "Time of a batch.", registry=registry, buckets=SECONDS)
        self.queue = Gauge("blanklm_queue_texts", "Texts waiting for the worker.", registry=registry)
        self.working = Gauge("blanklm_working_texts", "Texts being worked on.", registry=registry)

    def watch(self, worker: Worker) -> None:
        """Read the length of the queue and the size of the running batch from a worker."""
        self.queue.set_function(lambda: worker.waiting)
        self.working.set_function(lambda: worker.working)

    def observe(self, batch: list[Job], seconds: float) -> None:
        """Record a batch that has run."""
        self.batches.observe(sum(job.texts for job in batch))
        self.batch_seconds.observe(seconds)
        self.count(batch)

    def count(self, jobs: list[Job]) -> None:
        """Count the texts of jobs that have ended."""
        for job in jobs:
            self.texts.labels(job.task, job.outcome).inc(job.texts)

    def page(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class MetricsMiddleware:
    """Count and time requests by path; unknown paths count as one."""

    def __init__(self, app: ASGIApp, metrics: Metrics, paths: set[str]) -> None:
        self.app, self.metrics, self.paths = app, metrics, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 499  # unless an answer begins: the client may leave before

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - started)
