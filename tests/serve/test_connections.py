"""``blanklm serve`` when connections are many, slow or more than there are file handles."""

import json
import logging
import os
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from blanklm.serve.connections import LINGERING, OWN_FILES, OncePerSecond, room
from blanklm.serve.limits import Limits
from tests.serve.test_server import head, metric, post, received, wait_for
from tests.support.serving import served

UNFINISHED = b"POST /v1/fill HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


def open_files(process: subprocess.Popen) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))


@pytest.mark.slow
def test_headers_that_are_never_finished_are_closed_and_others_are_answered():
    with served("--limit", "header_seconds=1", "--limit", "connections=60") as process, ExitStack() as clients:
        before = open_files(process.process)
        slow = []
        for part in (b"", b"GET / HT", UNFINISHED, UNFINISHED) * 12:
            slow.append(clients.enter_context(socket.create_connection(("127.0.0.1", process.port), timeout=20)))
            slow[-1].sendall(part)
        assert post(process.port, {"texts": ["the ___ ."]})[0] == 200
        kept = HTTPConnection("127.0.0.1", process.port, timeout=20)  # an honest one, whose second header is slow
        kept.request("GET", "/healthz")
        kept.getresponse().read()
        kept.sock.sendall(UNFINISHED)
        started = time.monotonic()
        answers = [received(client) for client in (*slow, kept.sock)]
        assert all(b"408" in answer and b"header_too_slow" in answer for answer in answers)
        assert time.monotonic() - started < 10
        wait_for(lambda: open_files(process.process) <= before)
        assert post(process.port, {"texts": ["the ___ ."]})[0] == 200


@pytest.mark.slow
def test_more_connections_than_allowed_are_told_so_and_there_is_room_again():
    with served("--limit", "header_seconds=2", "--limit", "connections=10") as process, ExitStack() as clients:
        held = [clients.enter_context(socket.create_connection(("127.0.0.1", process.port))) for _ in range(10)]
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", process.port), timeout=20) as one_more:
            answer = received(one_more)
        assert answer.startswith(b"HTTP/1.1 503") and b"there are 10 connections already" in answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_many_connections"
        held.pop().close()
        wait_for(lambda: metric(process.port, "process_open_fds") > 0)


@pytest.mark.slow
def test_it_survives_few_file_handles_and_logs_little(monkeypatch):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = ["bash", "-c", 'ulimit -n 150; exec "$0" "$@"', sys.executable]
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda line, **more: popen([*command, *line[1:]], **more))
    with served("--limit", "header_seconds=1") as process, ExitStack() as clients:
        monkeypatch.undo()
        for _ in range(400):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", process.port), timeout=20))
            try:
                client.sendall(UNFINISHED)
            except OSError:
                continue  # refused already
        until = time.monotonic() + 15
        while True:  # one of its tries falls into the time when there is room
            try:
                assert post(process.port, {"texts": ["the ___ ."]}, timeout=5)[0] in (200, 503)
                if post(process.port, {"texts": ["the ___ ."]}, timeout=5)[0] == 200:
                    break
            except (OSError, ValueError):
                pass
            assert time.monotonic() < until
            time.sleep(0.1)
        process.process.terminate()
        assert process.process.wait(30) == 0
        assert len(process.process.stderr.read()) < 20_000
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limit


def test_connections_fit_the_files_there_are(monkeypatch):
    for files in (80, 200, 1024):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        most, at_once = room(Limits())
        assert 0 < most + LINGERING * at_once <= files - OWN_FILES + 2
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert room(Limits(connections=300))[0] == 300


def test_a_log_has_one_line_a_second_and_says_what_it_left_out(caplog):
    logger, once = logging.getLogger("blanklm.test"), OncePerSecond()
    logger.addFilter(once)
    for number in range(500):
        logger.warning("line %d", number)
    once._next = 0.0  # a second later
    logger.warning("line %d", 500)
    assert caplog.messages == ["line 0", "line 500 (499 more lines left out)"]


@pytest.mark.slow
def test_a_long_gap_is_left_at_its_deadline_and_when_its_client_leaves():
    text = "d(is) m(anibus) s[c. 500] iuliae felici vixit"
    with served("--model", "latin", "--limit", "deadline=60") as process:
        short = {"texts": ["d(is) m(anibus) s[..] iuliae"]}
        assert post(process.port, short, "/v1/restore")[0] == 200
        started = time.monotonic()
        status, answer = post(process.port, {"texts": [text], "deadline": 1.0}, "/v1/restore")
        assert status == 504 and answer["error"]["code"] == "deadline"
        assert post(process.port, short, "/v1/restore")[0] == 200  # it does not wait for the first
        body = json.dumps({"texts": [text]}).encode()
        with socket.create_connection(("127.0.0.1", process.port)) as client:
            client.sendall(head(f"Content-Length: {len(body)}").replace(b"/v1/fill", b"/v1/restore") + body)
            wait_for(lambda: metric(process.port, "blanklm_working_texts") > 0)
        wait_for(lambda: metric(process.port, "blanklm_working_texts") == 0)
        assert post(process.port, short, "/v1/restore")[0] == 200
        assert time.monotonic() - started < 40  # the gap takes longer than that
        process.process.terminate()
        assert process.process.wait(20) == 0
