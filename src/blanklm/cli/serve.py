"""``blanklm serve``."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from blanklm.cli.options import Device
from blanklm.errors import BlankLMError
from blanklm.extras import how_to_install

PACKAGES = ("uvicorn", "fastapi", "prometheus_client")  # of the extra


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model to serve; may be repeated. By default all bundled ones."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0: on every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free port.", min=0, max=65535)] = 8000,
    token: Annotated[str | None, typer.Option(envvar="BLANKLM_TOKEN", help="The bearer token to require.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further host name to accept; may be repeated.")
    ] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may call the API (CORS).")] = None,
    limit: Annotated[list[str] | None, typer.Option(help="NAME=VALUE: change a limit, such as deadline=10.")] = None,
    device: Device = None,
) -> None:
    """Serve the HTTP API and the web page.

    blanklm serve --port 8000
    """
    try:
        for package in PACKAGES:
            import_module(package)
        from blanklm.serve.server import run
    except ModuleNotFoundError as error:
        raise BlankLMError(f"serving needs {error.name}: {how_to_install('serve')}") from None
    run(model or [], host, port, device, token, allow_host or [], allow_origin or [], limit or [])
