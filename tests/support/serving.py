"""Servers for tests, in this process and as a separate one."""

import re
import subprocess
import sys
from contextlib import contextmanager

from fastapi.testclient import TestClient
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from blanklm.serve.app import create_app
from blanklm.serve.limits import Limits
from tests.support.paths import YELP_WORDS


@contextmanager
def client_of(model, limits=None, **options):
    with TestClient(create_app({"words": model}, limits or Limits(), **options), raise_server_exceptions=False) as c:
        yield c


class Process:
    """``blanklm serve`` as a separate process."""

    def __init__(self, *arguments: str, port: int = 0) -> None:
        model = () if "--model" in arguments else ("--model", YELP_WORDS)
        command = [sys.executable, "-m", "blanklm", "serve", "--port", str(port), *model, *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        match = re.search(r"http://\S+:(\d+)/", line)
        assert match, line + self.process.stderr.read()
        self.url, self.port = match[0].rstrip("/"), int(match[1])

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@contextmanager
def served(*arguments: str, port: int = 0):
    process = Process(*arguments, port=port)
    try:
        yield process
    finally:
        process.end()


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const css = (parts) => `rgb(${parts.join(' ')})`;
  const ground = (element) => element
    ? css(rgb(getComputedStyle(element).backgroundColor, ground(element.parentElement))) : 'white';
  const light = (parts) => parts.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.tagName === 'OPTION') continue;
    const under = ground(element), over = rgb(getComputedStyle(element).color, under);
    const [a, b] = [light(over), light(rgb(under, under))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(`${element.tagName}.${element.className} ${(a + 0.05) / (b + 0.05)}`);
  }
  return poor;
}"""
