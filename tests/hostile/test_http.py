"""Requests that somebody made to do harm: whatever is sent, no 5xx but the deadline's, and the server goes on."""

import json
import socket
import time
from collections import Counter
from copy import deepcopy
from http.client import HTTPConnection
from random import Random

import pytest

from tests.serve.test_server import metric
from tests.support.paths import YELP_WORDS
from tests.support.serving import served

pytestmark = pytest.mark.slow
LIMITS = {"texts": 4, "characters": 300, "blanks": 4, "candidates": 3, "canvases": 500, "deadline": 5, "body": 100_000}
SOUND = {
    "fill": {
        "texts": ["the ___ was ___[1-2] .", {"text": "a ___", "constraints": {"max": 2, "ban": ["food"]}}],
        "n": 2,
    },
    "sample": {"texts": ["the ___ ."], "n": 2, "temperature": 0.5, "top_k": 5, "top_p": 0.9, "seed": 3},
    "score": {"texts": ["the food was good ."], "method": "monte-carlo", "orders": 2, "seed": 1},
    "restore": {"texts": ["d(is) m(anibus) s[..] iuliae"], "notation": "leiden", "language": "latin", "top": 2},
    "transfer": {"texts": [{"text": "the food was great .", "mask": ["great", 1]}], "to": "negative", "samples": 2},
    "choose": {"texts": ["the ___ was ___ ."], "options": [["food", "staff"], ["good", "very bad"]], "orders": 2},
    "repair": {"texts": ["the food food was god ."], "keep": ["was"], "most": 0.5, "margin": 1.0, "rounds": 1},
    "words": {"texts": ["the food was god ."]},
}
SURROGATES = ["\ud800", "a \udfff ___", "d(is) s[..] \ud83d iuliae", "great \udc00 food"]
ANYTHING = [
    *(None, True, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -1e308, float("nan"), float("inf"), 0.5),
    *("", "a", "___", "___[", "\\___[" * 50, "___[9999999999]", "[c. 500]", "[", "<gap/>", "<ab>a<gap/></ab>", "\0"),
    *("<unk> <eos> <pad> <blank> ___", "\u202e\u0301", "🙂" * 50, "x" * 299, "x" * 50_000, " ", "α[..] s[..]"),
    *SURROGATES,
    *([], {}, [[]], ["___"] * 5, {"text": "___"}, {"min": 2, "max": 1}, [{"only": ["the"]}, None], [[[[[[]]]]]]),
]
PATHS = [
    *("/", "/static/", "/static/%00", "/static/../app.py", "/static/" + "a" * 5000, "/v1/fill/", "/v1/%ff", "//", "/%"),
    *("/openapi.json", "/metrics?x=%00", "/v1/models?%ff", "*", "/healthz%0d%0a"),
]
RAW = [
    b"\x00" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n", b"\r\n" * 100, b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000,
    b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    limits = [part for name, value in LIMITS.items() for part in ("--limit", f"{name}={value}")]
    models = [part for name in (YELP_WORDS, "sentiment", "latin") for part in ("--model", name)]
    with served(*limits, *models) as process:
        yield process


def ask(port, path, body: bytes, kind="application/json", method="POST"):
    """Return the status and the answer, over a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.putrequest(method, path)
        connection.putheader("Content-Type", kind)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def check(status: int, answer: bytes, sent) -> None:
    """An answer is no 5xx but that of a deadline, and an error has one line that says what is wrong."""
    assert status < 500 or (status == 504 and b'"deadline"' in answer), (status, answer, sent)
    if status not in (200, 405):
        error = json.loads(answer)["error"]
        assert error["message"] and "\n" not in error["message"] and len(error["message"]) < 1000, (error, sent)


def encoded(body) -> bytes:
    return json.dumps(body).encode()


@pytest.mark.parametrize("text", SURROGATES)
@pytest.mark.parametrize("task", SOUND)
def test_half_of_a_character_is_refused_where_it_stands(server, task, text):
    status, answer = ask(server.port, f"/v1/{task}", encoded(SOUND[task] | {"texts": [text]}))
    assert status == 422
    error = json.loads(answer)["error"]
    assert error["code"] == "bad_text" and error["field"] == "texts[0]"


@pytest.mark.parametrize(
    ("task", "more", "field"),
    [
        ("fill", {"constraints": {"ban": ["\ud800"]}}, "constraints.ban[0]"),
        ("fill", {"model": "\ud800"}, "model"),
        ("transfer", {"mask": ["\ud800"]}, "mask[0]"),
        ("transfer", {"to": "\ud800"}, "to"),
        ("choose", {"options": [["food"], ["\ud800"]]}, "options[1][0]"),
        ("repair", {"keep": ["\ud800"]}, "keep[0]"),
    ],
)
def test_so_it_is_in_every_field(server, task, more, field):
    status, answer = ask(server.port, f"/v1/{task}", encoded(SOUND[task] | more))
    assert status == 422 and json.loads(answer)["error"]["field"] == field


def changed(body: dict, random: Random) -> dict:
    """Put anything in the place of some values, or under new names."""
    body = json.loads(json.dumps(body))
    for _ in range(random.choice([1, 1, 2, 3])):
        name, value = (
            random.choice([*body, "constraints", "x", "deadline", "stream", "model"]),
            deepcopy(random.choice(ANYTHING)),
        )
        if name == "deadline" and random.random() < 0.9:
            continue
        kind = random.random()
        if name == "texts" and kind < 0.6:
            body["texts"] = [value if isinstance(value, str) and random.random() < 0.7 else {"text": value}]
        elif isinstance(body.get(name), list) and body[name] and kind < 0.8:
            body[name][random.randrange(len(body[name]))] = value
        else:
            body[name] = value
    return body


def test_whatever_a_request_holds_it_is_answered(server, seconds):
    random, until, statuses = Random(0), time.monotonic() + seconds, Counter()
    while time.monotonic() < until or not statuses:
        task = random.choice(list(SOUND))
        body = changed(SOUND[task], random)
        content = encoded(body)
        if random.random() < 0.1:
            content = content[: random.randrange(len(content))] + random.choice([b"", b"\xff", b"[" * 50_000, b"\0"])
        status, answer = ask(server.port, f"/v1/{task}", content)
        check(status, answer, (task, content[:2000]))
        statuses[status] += 1
    assert statuses.keys() <= {200, 400, 404, 413, 422, 504} and len(statuses) > 1


def test_whatever_the_path_and_the_method_it_is_answered(server):
    for path in PATHS:
        for method in ("GET", "POST", "HEAD", "DELETE"):
            status, answer = ask(server.port, path, b"", method=method)
            assert status < 500, (method, path, answer)
    for kind in ("", "text/plain", "application/json; charset=latin-1", "x" * 1000, "multipart/form-data"):
        status, answer = ask(server.port, "/v1/fill", b"\xff\xfe{", kind)
        check(status, answer, kind)


def test_whatever_the_bytes_the_server_goes_on(server):
    for content in RAW:
        with socket.create_connection(("127.0.0.1", server.port), timeout=3) as client:
            try:
                client.sendall(content)
                client.shutdown(socket.SHUT_WR)
                answer = client.recv(65536)
            except OSError:
                continue  # closed, or still waiting for more
        assert not answer.startswith(b"HTTP/1.1 5"), (content[:200], answer)
    status, answer = ask(server.port, "/v1/fill", encoded(SOUND["fill"]))
    assert status == 200 and len(json.loads(answer)["results"]) == 2
    assert metric(server.port, 'blanklm_texts_total{outcome="failed"') == 0
