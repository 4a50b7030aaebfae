"""The HTTP API in this process: what it answers, what it refuses, and that it stops when nobody wants the answer."""

import gc
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest
from fastapi.testclient import TestClient

from blanklm.core.template import Template
from blanklm.serve.app import create_app
from blanklm.serve.guard import allowed_hosts
from blanklm.serve.limits import Limits
from blanklm.serve.tasks.fill import SampleTask
from blanklm.serve.worker import Job
from tests.support.canvases import CANVAS
from tests.support.paths import ROOT
from tests.support.serving import client_of


def fill(client, *texts, **options):
    return client.post("/v1/fill", json={"texts": texts, **options})


def error_of(response, status):
    assert response.status_code == status, response.text
    (error,) = response.json().values()
    assert set(error) == {"code", "message", "field"} and "\n" not in error["message"]
    return error


def events_of(response):
    """(name, data) of each server-sent event."""
    assert response.headers["content-type"].startswith("text/event-stream")
    blocks = [dict(line.split(": ", 1) for line in block.split("\n")) for block in response.text.strip().split("\n\n")]
    return [(block["event"], json.loads(block["data"])) for block in blocks]


# --- Filling ----------------------------------------------------------------------------------------------------------


def test_fill_gives_what_python_gives(client, model):
    canvases = [CANVAS, "the ___[2] was ___ .", "i ___[1] it !"]
    answer = fill(client, *canvases, n=3, beam=5, order="model", length_penalty=0.5, trajectory=True).json()
    fills = model.fill(canvases, n=3, beam=5, order="model", length_penalty=0.5)
    assert answer["model"] == "words"
    for canvas, result, expected in zip(canvases, answer["results"], fills, strict=True):
        assert result["input"] == canvas and result["pieces"] == list(Template.parse(canvas).pieces)
        assert [f["spans"] for f in result["fills"]] == [list(f.spans) for f in expected.ranked]
        best = expected.to_json(trace=True)
        assert result["fills"][0]["log_prob"] == pytest.approx(best["log_prob"], abs=1e-4)
        for step, same in zip(result["fills"][0]["trajectory"], best["trajectory"], strict=True):
            assert step == pytest.approx(same, abs=1e-4)


@pytest.mark.parametrize("order", ["confident", "model", "left-to-right", "parallel"])
def test_every_order_fills(client, order):
    (result,) = fill(client, CANVAS, order=order).json()["results"]
    assert "___" not in result["fills"][0]["text"] and "trajectory" not in result["fills"][0]


def test_constraints_of_the_request_and_of_a_text(client):
    own = {"text": CANVAS, "constraints": [{"require": ["ice cream"], "max": 3}, None]}
    first, second = fill(client, own, CANVAS, constraints={"max": 1, "ban": ["the"]}).json()["results"]
    assert "ice cream" in first["fills"][0]["spans"][0] and len(first["fills"][0]["spans"][0].split()) <= 3
    assert all(len(span.split()) == 1 and span != "the" for span in second["fills"][0]["spans"])


def test_unknown_words_are_named_or_refused(client):
    canvas = "the qqqq was ___ ."
    assert fill(client, canvas).json()["results"][0]["unknown"] == ["qqqq"]
    assert error_of(fill(client, canvas, strict=True), 422)["code"] == "unknown_words"


def test_a_stream_takes_the_steps_of_the_trajectory_to_the_fills(client, model):
    canvases = [CANVAS, "the ___ ."]
    for options in ({}, {"n": 2, "beam": 4}, {"order": "parallel"}):
        events = events_of(fill(client, *canvases, stream=True, **options))
        assert events[-1] == ("done", {}) and {name for name, _ in events[:-1]} == {"step", "fill"}
        for place, expected in enumerate(model.fill(canvases, **options)):
            mine = [(name, data) for name, data in events[:-1] if data["text"] == place]
            *steps, (last, filled) = mine
            assert last == "fill" and len(filled["result"]["fills"]) == options.get("n", 1)
            assert filled["result"]["fills"][0]["text"] == expected.text
            taken = [{key: value for key, value in data.items() if key != "text"} for _, data in steps]
            assert [data.pop("step") for data in taken] == list(range(len(taken)))
            for sent, step in zip(taken, expected.trajectory.to_json(), strict=True):
                assert sent == pytest.approx(step, abs=1e-4)


def test_steps_are_sent_as_they_are_taken(slowed):
    """Not all at the end: when the first is read, most passes are still to come."""
    model = slowed(0.05)
    with (
        client_of(model) as client,
        client.stream("POST", "/v1/fill", json={"texts": ["the ___[8] ."], "stream": True}) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "event: step"
        seen = len(model.model.passes)
        list(lines)
        assert len(model.model.passes) == 8 and seen < 8


def test_steps_of_spans_are_sent_when_their_blank_is_filled(slow_writer):
    """Not earlier, since until then the search changes its mind; nor all at the end."""
    canvas = "I ___[1] it, and then we ___[4-6]."
    trajectory = slow_writer.fill(canvas).trajectory.to_json()
    slow_writer.model.passes.clear()
    with (
        client_of(slow_writer) as client,
        client.stream("POST", "/v1/fill", json={"texts": [canvas], "stream": True}) as response,
    ):
        lines = response.iter_lines()
        assert next(lines) == "event: step"
        seen = len(slow_writer.model.passes)
        sent = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert seen < len(slow_writer.model.passes)
    *steps, filled, done = sent
    for n, (step, expected) in enumerate(zip(steps, trajectory, strict=True)):
        assert step == pytest.approx({"text": 0, "step": n, **expected}, abs=1e-4)
    assert filled["result"]["fills"][0]["text"] == trajectory[-1]["canvas"] and done == {}


def test_samples_depend_on_the_seed_and_the_place_only(client, model):
    canvases = ["the ___ .", "my ___ was ___[1] ."]
    options = {"n": 3, "seed": 7, "temperature": 0.8, "top_p": 0.9}
    expected = [[f.text for f in drawn] for drawn in model.sample(canvases, **options)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda _: client.post("/v1/sample", json={"texts": canvases, **options}).json(), range(8))
        )
    for answer in answers:
        assert [[f["text"] for f in result["fills"]] for result in answer["results"]] == expected


@pytest.mark.parametrize("method", ["exact", "monte-carlo", "bound"])
def test_scores_are_those_of_python(client, model, method):
    texts = ["the food was really good .", "i love it !", "the food was really good ."]
    answer = client.post("/v1/score", json={"texts": texts, "method": method, "orders": 16}).json()
    for result, expected in zip(answer["results"], model.score(texts, method, orders=16), strict=True):
        assert result == pytest.approx(expected.to_json(), abs=1e-4)


def test_requests_that_come_together_share_a_batch_and_nothing_else(slowed):
    model = slowed(0.02)
    words = ["food", "staff", "chicken", "soup", "bread", "place", "service", "price"]
    canvases = [f"the {word} was {'very ' * k}___[{1 + k % 3}] ." for word in words for k in range(4)]
    expected = [filled.text for filled in model.fill(canvases)]
    model.model.passes.clear()
    with client_of(model) as client, ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda canvas: fill(client, canvas).json()["results"], canvases))
    assert [result["fills"][0]["text"] for (result,) in answers] == expected
    assert [result["input"] for (result,) in answers] == canvases
    assert max(model.model.passes) > 8 and len(model.model.passes) < 32


# --- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid", "texts"),
        ({"texts": []}, "invalid", "texts"),
        ({"texts": ["no blank"]}, "bad_text", "texts[0]"),
        ({"texts": [CANVAS, "the ___[5-2] ."]}, "bad_text", "texts[1]"),
        ({"texts": [CANVAS], "n": 0}, "invalid", "n"),
        ({"texts": [CANVAS], "n": "3"}, "invalid", "n"),
        ({"texts": [CANVAS], "colour": 1}, "invalid", "colour"),
        ({"texts": [CANVAS], "order": "backwards"}, "invalid", "order"),
        ({"texts": [{"text": CANVAS, "constraints": [{"min": 0}]}]}, "invalid", "texts[0].constraints[0].min"),
        ({"texts": [CANVAS], "constraints": [{"max": 2}]}, "bad_text", "texts[0]"),
        ({"texts": [CANVAS], "n": 1000}, "too_many_candidates", "n"),
        ({"texts": [CANVAS], "beam": 1000}, "too_many_candidates", "beam"),
        ({"texts": [CANVAS] * 65}, "too_many_texts", "texts"),
        ({"texts": ["___ " * 3000]}, "text_too_long", "texts[0]"),
        ({"texts": ["a\ud800 ___"]}, "bad_text", "texts[0]"),
        ({"texts": ["the ___"], "order": "parallel", "n": 2}, "invalid", "order"),
        ({"texts": ["the ___"], "deadline": 0}, "invalid", "deadline"),
        ({"texts": ["the ___"], "blanks": "spans"}, "invalid", "blanks"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named_with_its_field(client, body, code, field):
    response = client.post("/v1/fill", content=json.dumps(body), headers={"Content-Type": "application/json"})
    error = error_of(response, 422)
    assert (error["code"], error["field"]) == (code, field)


def test_the_candidates_for_spans_are_those_of_all_lengths(slow_writer):
    with client_of(slow_writer, Limits(candidates=8)) as client:
        assert fill(client, "I ___[1] it.", n=4, beam=2).status_code == 200
        error = error_of(fill(client, "I ___[1] it.", n=3, beam=3), 422)
        assert (error["code"], error["field"]) == ("too_many_candidates", "n") and "n x beam is 9" in error["message"]
        assert fill(client, "I ___[1] it.", n=3, beam=3, order="confident").status_code == 200


def test_blanks_words_and_canvases_are_limited(model):
    with client_of(model, Limits(blanks=3, canvases=1000, words=5)) as client:
        assert fill(client, "a ___ b ___", constraints={"ban": ["good", "bad"]}).status_code == 200
        many = fill(client, "a ___ b ___", "c ___", constraints={"ban": ["good", "bad"]})
        assert (error_of(many, 422)["code"], error_of(many, 422)["field"]) == ("too_many_words", "texts[1]")
        assert error_of(fill(client, "a ___ b ___ c ___ d ___"), 422)["code"] == "too_many_blanks"
        score = client.post("/v1/score", json={"texts": ["the food was good ."], "orders": 1000})
        assert error_of(score, 422)["code"] == "too_many_canvases"


def test_bodies_that_are_no_json(client):
    for content in (b'{"texts": ', b"[" * 100_000, b"\xff\xfe", b'{"texts": ["___"], "n": 1' + b"0" * 5000 + b"}"):
        response = client.post("/v1/fill", content=content, headers={"Content-Type": "application/json"})
        assert error_of(response, response.status_code)["code"] in ("not_json", "invalid")
        assert response.status_code in (400, 422)
    plain = client.post("/v1/fill", content=json.dumps({"texts": [CANVAS]}), headers={"Content-Type": "text/plain"})
    assert error_of(plain, 415)["code"] == "not_json"


def test_no_such_model_page_or_method(client):
    assert error_of(fill(client, CANVAS, model="gpt"), 404) == {
        "code": "no_such_model",
        "message": "there is no model 'gpt' for this task: choose words",
        "field": "model",
    }
    assert error_of(client.get("/v1/restore"), 404)["code"] == "not_found"
    assert error_of(client.get("/v1/fill"), 405)["code"] == "method_not_allowed"


def test_a_body_over_the_limit_is_refused_before_it_is_read(model):
    with client_of(model, Limits(body=1000)) as client:
        assert error_of(fill(client, "a" * 1000), 413)["code"] == "body_too_large"


def test_a_mistake_of_the_server_is_told_without_its_insides(slowed, monkeypatch):
    model = slowed(0)
    monkeypatch.setattr(model, "fill", lambda *a, **k: 1 / 0)
    with client_of(model) as client:
        error = error_of(fill(client, CANVAS), 500)
        assert error["code"] == "internal" and "zero" not in error["message"]
        assert client.get("/readyz").status_code == 200  # the worker lives on
        events = events_of(fill(client, CANVAS, stream=True))
        assert [(name, data.get("error", {}).get("code")) for name, data in events] == [
            ("error", "internal"),
            ("done", None),
        ]


# --- Who may ask ------------------------------------------------------------------------------------------------------


def test_a_token_is_wanted_where_there_is_one(model):
    with client_of(model, token="geheim") as client:
        schema = client.get("/openapi.json").json()
        assert schema["components"]["securitySchemes"] and schema["paths"]["/v1/fill"]["post"]["security"]
        assert error_of(client.get("/v1/models"), 401)["code"] == "unauthorised"
        assert error_of(client.get("/metrics"), 401)["code"] == "unauthorised"
        assert error_of(client.get("/v1/models", headers={"Authorization": "Bearer gehein"}), 401)
        assert client.get("/v1/models", headers={"Authorization": "Bearer geheim"}).status_code == 200
        assert client.get("/").status_code == client.get("/healthz").status_code == 200


def test_other_hosts_and_other_sites_are_kept_out(model):
    with client_of(model, hosts=["localhost", "[::1]"]) as client:
        for host, status in (("localhost", 200), ("localhost:80", 200), ("[::1]:9", 200), ("evil.example", 400)):
            assert client.get("/healthz", headers={"Host": host}).status_code == status
        answer = client.get("/v1/models", headers={"Host": "localhost", "Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers
    with client_of(model, origins=["https://friend.example"], token="geheim") as client:
        ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        for origin, status in (("https://friend.example", 200), ("https://evil.example", 400)):
            assert client.options("/v1/fill", headers={"Origin": origin, **ask}).status_code == status
        answer = client.get("/v1/models", headers={"Origin": "https://friend.example"})
        assert answer.headers["access-control-allow-origin"] == "https://friend.example"
        assert error_of(answer, 401)


@pytest.mark.parametrize(
    ("bound_to", "more", "answers_to"),
    [
        ("127.0.0.1", [], {"localhost", "127.0.0.1", "[::1]"}),
        ("127.0.0.2", [], {"localhost", "127.0.0.1", "[::1]", "127.0.0.2"}),
        ("::1", ["Box.example"], {"localhost", "127.0.0.1", "[::1]", "box.example"}),
        ("0.0.0.0", [], None),
        ("0.0.0.0", ["box.example"], {"localhost", "127.0.0.1", "[::1]", "0.0.0.0", "box.example"}),
    ],
)
def test_the_names_that_a_server_answers_to(bound_to, more, answers_to):
    allowed = allowed_hosts(bound_to, more)
    assert (None if allowed is None else set(allowed)) == answers_to


def test_every_answer_forbids_foreign_scripts(client):
    for path in ("/", "/v1/models", "/nowhere", "/static/style.css"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


# --- Stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/fill", {"texts": ["the ___[60] ."]}),
        ("/v1/fill", {"texts": ["the ___[60] ."], "n": 2, "beam": 2}),
        ("/v1/fill", {"texts": ["the " + "___[9] and " * 8], "order": "parallel"}),
        ("/v1/sample", {"texts": ["the ___[60] ."], "n": 2}),
        ("/v1/score", {"texts": ["the food was good and so was the staff ."] * 40, "orders": 256}),
        ("/v1/score", {"texts": ["the food was good and so was the staff at the bar ."], "method": "exact"}),
    ],
    ids=str,
)
def test_a_deadline_stops_the_work(slowed, path, body):
    model = slowed(0.05)
    with client_of(model) as client:
        started = time.monotonic()
        assert error_of(client.post(path, json={**body, "deadline": 0.2}), 504)["code"] == "deadline"
        assert time.monotonic() - started < 1
        time.sleep(0.2)
        passes = len(model.model.passes)
        assert passes < 8
        time.sleep(0.3)
        assert len(model.model.passes) == passes  # nothing goes on behind


def test_a_text_that_is_given_up_leaves_its_batch_unharmed(slowed):
    model = slowed(0.03)
    expected = model.fill("the ___[12] .").text
    with client_of(model) as client, ThreadPoolExecutor(2) as pool:
        late = pool.submit(fill, client, "the ___[70] .", deadline=0.15)
        kept = pool.submit(fill, client, "the ___[12] .")
        assert late.result().status_code == 504
        assert kept.result().json()["results"][0]["fills"][0]["text"] == expected


def test_a_stream_says_that_its_deadline_has_passed(slowed):
    with client_of(slowed(0.05)) as client:
        events = events_of(fill(client, "the ___[60] .", stream=True, deadline=0.3))
    assert events[0][0] == "step" and events[-1][0] == "error" and events[-1][1]["error"]["code"] == "deadline"


def test_a_full_queue_says_when_to_come_again(slowed):
    with client_of(slowed(0.1), Limits(queue=2, batch=1)) as client, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fill(client, "the ___[5] ."), range(8)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429} and statuses.count(200) >= 2
    for answer in answers:
        if answer.status_code == 429:
            assert error_of(answer, 429)["code"] == "queue_full" and 1 <= int(answer.headers["retry-after"]) <= 60


WORD_TASKS = ["fill", "sample", "choose", "score", "words", "repair"]  # of a model that fills


# --- What there is ----------------------------------------------------------------------------------------------------


def test_models_health_and_metrics(client, model):
    (record,) = client.get("/v1/models").json()["models"]
    assert record["name"] == "words" and record["default"] and record["tasks"] == WORD_TASKS
    assert record["tokens"] == "word" and record["licence"] and record["parameters"] > 10**6
    assert client.get("/healthz").json()["status"] == "alive" and client.get("/readyz").json()["status"] == "ready"
    before = metric(client, 'blanklm_texts_total{outcome="done",task="fill"}')
    fill(client, CANVAS, CANVAS)
    until = time.monotonic() + 5  # the worker counts a batch just after it has answered
    while metric(client, 'blanklm_texts_total{outcome="done",task="fill"}') == before and time.monotonic() < until:
        time.sleep(0.01)
    assert metric(client, 'blanklm_texts_total{outcome="done",task="fill"}') == before + 2
    assert metric(client, 'blanklm_requests_total{path="/v1/fill",status="200"}') >= 1
    assert metric(client, "blanklm_queue_texts") == 0


def test_a_task_is_there_when_a_model_can_do_it(model, slowed, monkeypatch):
    other = slowed(0)
    monkeypatch.setattr(SampleTask, "takes", lambda task, model: model is other)
    with client_of(model) as client:
        assert client.get("/v1/models").json()["models"][0]["tasks"] == [
            task for task in WORD_TASKS if task != "sample"
        ]
        assert error_of(client.post("/v1/sample", json={"texts": [CANVAS]}), 404)["code"] == "not_found"
    with TestClient(create_app({"words": model, "other": other})) as client:
        assert client.post("/v1/sample", json={"texts": [CANVAS]}).json()["model"] == "other"
        assert fill(client, CANVAS).json()["model"] == "words"
        assert fill(client, CANVAS, model="other").json()["model"] == "other"
        error = error_of(client.post("/v1/sample", json={"texts": [CANVAS], "model": "words"}), 404)
        assert error["code"] == "no_such_model" and error["message"].endswith("choose other")


def metric(client, name):
    values = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name + " ")]
    return float(values[0].split()[-1]) if values else 0.0


def test_the_page_asks_nothing_of_other_servers(client):
    """Every asset that the page names is served here."""
    page = client.get("/").text
    assets = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert assets
    for asset in assets:
        assert not asset.startswith(("http", "//")) and client.get("/" + asset.lstrip("./")).status_code == 200, asset


@pytest.mark.parametrize("options", [{}, {"n": 2, "beam": 2}, {"stream": True}], ids=str)
def test_an_answered_job_is_gone_without_waiting_for_the_collector(client, options):
    """So memory does not grow between its rare runs; the worker may still hold its last batch."""
    fill(client, CANVAS, **options)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            fill(client, CANVAS, **options)
        assert sum(type(thing) is Job for thing in gc.get_objects()) <= 2
    finally:
        gc.enable()


def test_threads_do_not_outlive_the_server(model):
    before = {thread.name for thread in threading.enumerate()}
    with client_of(model) as client:
        fill(client, CANVAS)
        assert "blanklm-worker" in {thread.name for thread in threading.enumerate()}
    left = {thread.name for thread in threading.enumerate()} - before
    assert "blanklm-worker" not in left


def test_the_document_has_every_limit():
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE))
    assert Limits.parse([f"{name}={value}" for name, value in documented.items()]) == Limits()
    assert set(documented) == {field.name for field in fields(Limits)}
