"""``blanklm serve`` as a real process: signals, clients that leave or dawdle, a crash under load."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException

import pytest

from blanklm.extras import how_to_install
from tests.support.paths import YELP_WORDS
from tests.support.serving import served

pytestmark = pytest.mark.slow
LONG = {"texts": ["the ___[100] ."] * 4, "n": 12, "beam": 12}  # seconds of work


def post(port, body, path="/v1/fill", timeout=60):
    """(status, answer), over a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def metric(port, name):
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def wait_for(condition, seconds=20.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def working(port):
    """Has the worker taken what was sent?"""
    return metric(port, "blanklm_working_texts") > 0


@pytest.fixture(scope="module")
def server():
    with served("--limit", "body=5000", "--limit", "body_seconds=1") as process:
        yield process


def test_sigterm_finishes_what_was_taken_and_takes_no_more():
    with served() as process, ThreadPoolExecutor(2) as pool:
        taken = pool.submit(post, process.port, {"texts": ["the ___[80] ."], "n": 3, "beam": 3})
        wait_for(lambda: working(process.port))
        waiting = pool.submit(post, process.port, {"texts": ["the ___ ."]})
        wait_for(lambda: metric(process.port, "blanklm_queue_texts") > 0)
        process.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(OSError):
            post(process.port, {"texts": ["the ___ ."]}, timeout=2)
        status, answer = taken.result()
        assert status == 200 and len(answer["results"][0]["fills"]) == 3
        assert waiting.result()[0] == 200
        assert process.process.wait(20) == 0
        assert process.process.stderr.read() == ""


def test_ctrl_c_ends_it_quietly():
    with served() as process:
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(20) == 0 and process.process.stderr.read() == ""


@pytest.mark.parametrize("more", [{}, {"stream": True}], ids=["plain", "stream"])
def test_a_client_that_leaves_stops_its_work(server, more):
    stopped = metric(server.port, 'blanklm_texts_total{outcome="stopped"')
    body = json.dumps({**LONG, **more}).encode()
    client = socket.create_connection(("127.0.0.1", server.port))
    client.sendall(head(f"Content-Length: {len(body)}") + body)
    wait_for(lambda: working(server.port))
    started = time.monotonic()
    client.close()
    wait_for(lambda: metric(server.port, 'blanklm_texts_total{outcome="stopped"') == stopped + 4)
    assert not working(server.port) and time.monotonic() - started < 3
    assert post(server.port, {"texts": ["the ___ ."]})[0] == 200


def head(more):
    """The lines before a body, with one more of them."""
    lines = ("POST /v1/fill HTTP/1.1", "Host: localhost", "Content-Type: application/json", more, "", "")
    return "\r\n".join(lines).encode()


def received(client):
    """Read until the server closes."""
    answer = b""
    try:
        while chunk := client.recv(65536):
            answer += chunk
    except OSError:
        pass
    return answer


def raw(port, *parts, pause=0.0):
    """Send the parts of a request as they are and read the answer's first line and body."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(pause)
        except OSError:
            pass  # refused before all was sent
        return received(client).decode()


def test_a_body_without_end_is_refused_before_it_is_read(server):
    chunk = b"400\r\n" + b" " * 0x400 + b"\r\n"
    answer = raw(server.port, head("Transfer-Encoding: chunked"), *[chunk] * 5, pause=0.02)
    assert answer.startswith("HTTP/1.1 413") and "body_too_large" in answer


def test_a_body_that_dawdles_is_refused(server):
    answer = raw(server.port, head("Content-Length: 100"), b"{")
    assert answer.startswith("HTTP/1.1 408") and "body_too_slow" in answer


def test_an_answer_over_a_connection_that_stays_does_not_wait_for_the_network(server):
    """With Nagle's algorithm on, each would take 40 ms longer than the work."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
    times = []
    for _ in range(9):
        started = time.perf_counter()
        connection.request(
            "POST", "/v1/fill", json.dumps({"texts": ["no blank"]}), {"Content-Type": "application/json"}
        )
        connection.getresponse().read()
        times.append(time.perf_counter() - started)
    connection.close()
    assert min(times[1:]) < 0.03


def test_foreign_names_are_refused(server):
    answer = raw(server.port, b"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    assert answer.startswith("HTTP/1.1 400") and "bad_host" in answer


def test_killed_under_load_and_started_again_it_goes_on():
    """Clients that try again get every answer, and each its own."""
    words = ["food", "staff", "soup", "bread", "place", "price", "waiter", "salad"]
    canvases = [f"the {word} was {'very ' * k}___[{1 + k % 2}] ." for word in words for k in range(8)]

    def ask(canvas):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                status, answer = post(port, {"texts": [canvas]}, timeout=20)
            except (
                OSError,
                ValueError,
                HTTPException,
            ):  # the server is away, or was killed in the middle of its answer
                time.sleep(0.05)
                continue
            assert status in (200, 429)
            if status == 200:
                return answer["results"][0]
        raise AssertionError("no answer")

    with ThreadPoolExecutor(16) as pool:
        with served() as first:
            port = first.port
            answers = [pool.submit(ask, canvas) for canvas in canvases]
            wait_for(lambda: sum(answer.done() for answer in answers) > 8)
            first.process.kill()
            first.process.wait()
        with served(port=port) as second:
            results = [answer.result() for answer in answers]
            expected = post(second.port, {"texts": canvases})[1]["results"]
    assert [result["input"] for result in results] == canvases
    assert [result["fills"][0]["text"] for result in results] == [result["fills"][0]["text"] for result in expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "nothing"], "there is no model 'nothing'"),
        (["--limit", "speed=1"], "there is no limit 'speed'"),
        (["--token", " "], "the token is empty"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
    ],
    ids=str,
)
def test_what_keeps_it_from_starting_is_one_line(arguments, message):
    command = [sys.executable, "-m", "blanklm", "serve", "--port", "0", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {message}") and done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(server):
    command = [sys.executable, "-m", "blanklm", "serve", "--port", str(server.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "choose another --port" in done.stderr and done.stderr.count("\n") == 1


def test_somebody_at_a_terminal_is_told_what_is_loaded():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "blanklm", "serve", "--port", "0", "--model", YELP_WORDS]
    process = subprocess.Popen(command, stderr=theirs)
    try:
        with os.fdopen(ours, "rb", buffering=0) as terminal:
            assert terminal.read(1000).decode().strip() == f"loading {YELP_WORDS} ..."
    finally:
        process.kill()
        process.wait()
        os.close(theirs)


@pytest.mark.parametrize("missing", ["uvicorn", "fastapi", "prometheus_client"])
def test_the_missing_extra_is_named(tmp_path, missing):
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('not there', name='{missing}')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}  # the same blanklm as here
    command = [sys.executable, "-m", "blanklm", "serve"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1 and done.stderr == f"error: serving needs {missing}: {how_to_install('serve')}\n"
