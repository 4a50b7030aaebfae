"""The process of a server: take the port, load the models, serve until a signal, finish pending requests."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from blanklm import pretrained
from blanklm.cores import Reading, use_free_cores
from blanklm.errors import BlankLMError
from blanklm.serve.limits import Limits
from blanklm.serve.memory import map_large_blocks

WAITING = 2048  # connections that the system holds until they are accepted


def run(
    models: Sequence[str],
    host: str,
    port: int,
    device: str | None,
    token: str | None,
    allow_hosts: Sequence[str],
    origins: Sequence[str],
    limits: Sequence[str],
) -> None:
    """Serve until SIGTERM or SIGINT; then finish the pending requests within their deadlines."""
    bounds = Limits.parse(list(limits))
    if token is not None and not token.strip():
        raise BlankLMError("the token is empty: leave out --token to serve without one")
    map_large_blocks()
    started = Reading.now()
    with _listen(host, port) as listener:
        if sys.stderr.isatty():  # somebody waits
            print(f"loading {', '.join(models) or 'the bundled models'} ...", file=sys.stderr, flush=True)
        from blanklm.serve.app import create_app  # torch takes seconds to import: first check the rest
        from blanklm.serve.connections import bounded, log_less, room
        from blanklm.serve.guard import allowed_hosts
        from blanklm.serve.loading import Product, load, served

        loaded: dict[str, Product] = {}
        for model in models or served():
            loaded[_name(model)] = load(model, device, loaded)
        use_free_cores(started)
        app = create_app(loaded, bounds, token, allowed_hosts(host, allow_hosts), origins)
        most, at_once = room(bounds)
        config = uvicorn.Config(
            app,
            http=bounded(bounds, most),
            backlog=at_once,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=int(bounds.deadline + bounds.body_seconds) + 1,
        )
        log_less()
        where = f"[{host}]" if ":" in host else host
        address = f"http://{where}:{listener.getsockname()[1]}/"
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it has shut down
        with suppress(KeyboardInterrupt):
            _AnnouncingServer(config, f"serving {', '.join(loaded)} on {address}").run(sockets=[listener])


class _AnnouncingServer(uvicorn.Server):
    """A server that prints its address once it accepts requests: from then on a signal ends it quietly."""

    def __init__(self, config: uvicorn.Config, announcement: str) -> None:
        super().__init__(config)
        self.announcement = announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)  # uvicorn has set it to what is accepted at once
        print(self.announcement, file=sys.stderr, flush=True)


def _listen(host: str, port: int) -> socket.socket:
    """Bind the port, before the models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only for sockets declared as TCP; otherwise each answer would wait 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(WAITING)
        return listener
    except OSError as error:
        listener.close()
        raise BlankLMError(f"cannot listen on {host} port {port} ({error.strerror}): choose another --port") from None


def _name(model: str) -> str:
    """Return the name to serve a model under: of a folder, its last component."""
    return Path(model).resolve().name if Path(model).is_dir() and model not in pretrained.bundled() else model
