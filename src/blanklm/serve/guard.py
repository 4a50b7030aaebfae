"""Middleware that checks each request before anything of it is parsed: Host header, token, and size of the body.

Plain ASGI, so that a body that is too large is never read whole. Starlette's ``TrustedHostMiddleware`` would answer in
plain text without saying which option is missing, and FastAPI parses the body before it calls a dependency that could
check the token.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from blanklm.serve.limits import Limits, Refusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
CLOSE = {"Connection": "close"}  # the rest of the body is not read
SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Refuse requests to names other than ``hosts`` (None: any), without the token, or beyond the limits."""

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None, hosts: Sequence[str] | None) -> None:
        self.app, self.limits, self.token, self.hosts = app, limits, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_token(scope["path"], headers)
            body = await self._read(headers, receive)
        except Refusal as refusal:
            await refusal_response(refusal)(scope, receive, send_guarded)
            return
        if body is None:  # the client left before it had sent everything
            return
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_again() -> Message:
            return next(messages, None) or await receive()

        await self.app(scope, receive_again, send_guarded)

    def _check_host(self, headers: Headers) -> None:
        """Refuse other host names, so that no foreign page can reach the server by DNS rebinding."""
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.hosts is not None and name.lower() not in self.hosts:
            message = f"this server does not answer to the name {name!r}: start it with --allow-host {name}"
            raise Refusal(400, "bad_host", message)

    def _check_token(self, path: str, headers: Headers) -> None:
        if self.token is None or not (path.startswith("/v1/") or path == "/metrics"):
            return
        credentials = headers.get("authorization", "")
        if not hmac.compare_digest(credentials.encode("latin-1"), f"Bearer {self.token}".encode()):
            message = "this server needs a token: send the header Authorization: Bearer TOKEN"
            raise Refusal(401, "unauthorised", message, None, {"WWW-Authenticate": "Bearer"})

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Read the body, up to the limit; None if the client left."""
        reason = f"the request is larger than {self.limits.body:,} bytes: split it"
        too_large = Refusal(413, "body_too_large", reason, None, CLOSE)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.limits.body:
            raise too_large
        body = b""
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > self.limits.body:
                        raise too_large
                    if not message.get("more_body"):
                        return body
        except TimeoutError:
            reason = f"the request was not sent within {self.limits.body_seconds:g} s: try again"
            raise Refusal(408, "body_too_slow", reason, None, CLOSE) from None


def refusal_response(refusal: Refusal) -> JSONResponse:
    return JSONResponse(refusal.to_json(), refusal.status, refusal.headers)


def allowed_hosts(bound_to: str, more: Sequence[str]) -> list[str] | None:
    """Return the allowed names: on the loopback interface its own and ``more``; elsewhere ``more``, or any (None)."""
    name = f"[{bound_to}]" if ":" in bound_to else bound_to
    try:
        loopback = bound_to == "localhost" or ip_address(bound_to).is_loopback
    except ValueError:
        loopback = False  # another name
    return [*LOOPBACK, *map(str.lower, (name, *more))] if loopback or more else None
