"""The worker and its queue, with work that is nothing but sleeping and remembering."""

import threading
import time

import pytest

from blanklm.serve.limits import Limits, Refusal
from blanklm.serve.worker import Client, Job, Stopped, Worker


class Work:
    """Runs items by doubling them; remembers its batches. The first batch waits until ``go`` is set."""

    def __init__(self):
        self.batches, self.go = [], threading.Event()

    def __call__(self, items):
        self.go.wait(5)
        self.batches.append(items)
        if "bad" in items:
            raise ValueError("bad")
        return [2 * item for item in items]

    def job(self, item, group="a", size=1, deadline=float("inf")):
        return Job("task", group, item, self, Client(deadline), size)


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def start():
    workers = []

    def make(**limits):
        workers.append(Worker(Limits(**limits)))
        workers[-1].start()
        return workers[-1]

    yield make
    for worker in workers:
        worker.close()


def held(worker, work, jobs):
    """Submit jobs while the worker is held up by one of another group, and let it go."""
    worker.submit([work.job(0, group="first")])
    while worker.waiting:
        time.sleep(0.001)
    worker.submit(jobs)
    work.go.set()
    return [job.answer.result(5) for job in jobs]


def test_jobs_of_a_group_run_together_and_keep_their_answers(start, work):
    jobs = [work.job(item, group="ab"[item % 2]) for item in range(1, 11)]
    assert held(start(), work, jobs) == [2 * item for item in range(1, 11)]
    assert work.batches == [[0], [1, 3, 5, 7, 9], [2, 4, 6, 8, 10]]


def test_a_batch_has_the_oldest_and_those_nearest_to_it_in_size(start, work):
    jobs = [work.job(size, size=size) for size in (50, 3, 49, 2, 52, 1)]
    held(start(batch=3), work, jobs)
    assert [sorted(batch) for batch in work.batches[1:]] == [[49, 50, 52], [1, 2, 3]]


def test_a_batch_keeps_to_its_tokens_unless_one_text_alone_exceeds_them(start, work):
    jobs = [work.job(size, size=size) for size in (90, 60, 30, 10)]
    held(start(batch_tokens=70), work, jobs)
    assert work.batches[1:] == [[90], [60], [30, 10]]


def test_a_job_that_fails_fails_alone(start, work):
    jobs = [work.job(item) for item in (1, "bad", 3)]
    worker = start()
    with pytest.raises(ValueError, match="bad"):
        held(worker, work, jobs)
    assert jobs[0].answer.result(5) == 2 and jobs[2].answer.result(5) == 6
    assert [job.outcome for job in jobs] == ["done", "failed", "done"]
    assert worker.ready


def test_jobs_that_nobody_waits_for_are_not_run(start, work):
    left, late, kept = work.job(1), work.job(2, deadline=time.monotonic()), work.job(3)
    left.client.left = True
    worker = start()
    work.go.set()
    worker.submit([left, late, kept])
    assert kept.answer.result(5) == 6 and work.batches == [[3]]
    for job in (left, late):
        with pytest.raises(Stopped):
            job.answer.result(5)


def test_the_queue_is_bounded_and_takes_all_of_a_request_or_nothing(start, work):
    worker = start(queue=3)
    worker.submit([work.job(0, group="first")])
    while worker.waiting:
        time.sleep(0.001)
    worker.submit([work.job(1), work.job(2)])
    with pytest.raises(Refusal) as refused:
        worker.submit([work.job(3), work.job(4)])
    assert refused.value.status == 429 and int(refused.value.headers["Retry-After"]) >= 1 and worker.waiting == 2
    worker.submit([work.job(5)])
    work.go.set()


def test_the_message_names_the_seconds_of_its_header(start, work):
    worker = start(queue=1)
    worker._seconds_per_text = 1000.0
    worker.submit([work.job(0, group="first")])
    while worker.waiting:
        time.sleep(0.001)
    worker.submit([work.job(1)])
    with pytest.raises(Refusal, match="try again in 60 s") as refused:
        worker.submit([work.job(2)])
    assert refused.value.headers["Retry-After"] == "60"
    work.go.set()


def test_texts_that_expire_in_the_queue_are_reported(work):
    expired = []
    worker = Worker(Limits(), expired=expired.extend)
    late, kept = work.job(1, deadline=time.monotonic()), work.job(2)
    work.go.set()
    worker.submit([late, kept])
    worker.start()
    assert kept.answer.result(5) == 4
    worker.close()
    assert expired == [late] and late.outcome == "stopped"


def test_those_who_left_make_room(start, work):
    worker = start(queue=2)
    worker.submit([work.job(0, group="first")])
    while worker.waiting:
        time.sleep(0.001)
    gone = [work.job(1), work.job(2)]
    worker.submit(gone)
    for job in gone:
        job.client.left = True
    kept = work.job(3)
    worker.submit([kept])
    work.go.set()
    assert kept.answer.result(5) == 6


def test_closing_finishes_what_was_taken_and_takes_no_more(start, work):
    worker = start(batch=1)
    jobs = [work.job(item) for item in range(5)]
    worker.submit(jobs)
    work.go.set()
    worker.close()
    assert [job.answer.result(0) for job in jobs] == [0, 2, 4, 6, 8]
    with pytest.raises(Refusal) as refused:
        worker.submit([work.job(9)])
    assert refused.value.status == 503 and not worker.ready


def test_the_worker_waits_for_as_many_as_it_answered_and_no_longer(start, work):
    worker = start(batch_wait=4.0)
    both = [work.job(item) for item in (1, 2)]
    assert held(worker, work, both) == [2, 4]  # two in the last batch, and nobody waits
    first, second = work.job(3), work.job(4)
    worker.submit([first])
    time.sleep(0.2)
    assert not first.answer.done()  # the other may be about to ask again
    started = time.monotonic()
    worker.submit([second])
    assert (first.answer.result(5), second.answer.result(5)) == (6, 8)
    assert work.batches[-1] == [3, 4] and time.monotonic() - started < 0.9  # a quarter of the bound is 1 s


def test_clients_do_not_split_into_those_answered_and_those_waiting(start, work):
    worker = start(batch_wait=4.0)
    first = [work.job(item) for item in (1, 2)]
    worker.submit(first)
    while worker.waiting:
        time.sleep(0.001)
    waiting, back = [work.job(item) for item in (3, 4)], [work.job(item) for item in (5, 6)]
    worker.submit(waiting)
    work.go.set()
    assert [job.answer.result(5) for job in first] == [2, 4]
    worker.submit(back)
    assert [job.answer.result(5) for job in (*waiting, *back)] == [6, 8, 10, 12]
    assert work.batches[-1] == [3, 4, 5, 6]


def test_one_that_does_not_come_back_is_waited_for_no_longer_than_the_bound(start, work):
    worker = start(batch_wait=0.4)
    held(worker, work, [work.job(item) for item in (1, 2)])
    started, job = time.monotonic(), work.job(3)
    worker.submit([job])
    job.answer.result(5)
    assert 0.09 < time.monotonic() - started < 0.4


def test_an_awaiter_that_gives_up_does_not_cancel_the_workers_answer(start, work):
    job = work.job(1)
    assert not job.answer.cancel()
    assert held(start(), work, [job]) == [2]


@pytest.mark.parametrize("written", ["speed=9", "queue=many", "queue=0", "deadline=-1", "deadline=inf"])
def test_a_limit_that_is_none_is_refused_in_one_line(written):
    with pytest.raises(ValueError, match="limit") as error:
        Limits.parse([written])
    assert "\n" not in str(error.value)


def test_limits_are_read_by_name():
    assert Limits.parse(["queue=7", "deadline=2.5"]) == Limits(queue=7, deadline=2.5)
