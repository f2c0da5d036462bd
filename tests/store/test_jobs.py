from concurrent.futures import ThreadPoolExecutor

import pytest

from clvlab.errors import LeaseLostError
from clvlab.store import jobs, runs
from clvlab.store.database import Database
from clvlab.store.jobs import JobStatus

LEASE = 1000


@pytest.fixture
def database(database_url):
    opened = Database(database_url)
    yield opened
    opened.close()


def queued(database, *run_ids):
    with database.write() as connection:
        return [jobs.add(connection, "deploy", run_id, {"origin_id": run_id}, 0) for run_id in run_ids]


def claimed(database, now_ms, run_id=None):
    with database.write() as connection:
        return jobs.claim(connection, ["deploy"], now_ms, LEASE, run_id)


def test_jobs_are_claimed_oldest_first_and_once(database):
    first, second = queued(database, "run_1", "run_2")

    found = [claimed(database, 0) for _ in range(3)]

    assert [job and job.job_id for job in found] == [first, second, None]


def test_a_job_can_be_claimed_by_its_run(database):
    queued(database, "run_1", "run_2")

    assert claimed(database, 0, "run_2").run_id == "run_2"
    assert claimed(database, 0, "run_3") is None


def test_a_job_of_a_kind_that_nobody_here_knows_is_left_to_others(database):
    with database.write() as connection:
        jobs.add(connection, "of tomorrow", "run_1", {}, 0)

    assert claimed(database, 0) is None


def owned(database, **jobs_of):
    """Queue jobs of owners, all of one owner's before the next one's; gives the owner of each job by run."""
    owner_of = {}
    for owner, count in jobs_of.items():
        for number in range(count):
            owner_of[f"{owner}_{number}"] = owner
    row = {"kind": "deploy", "source_mode": "replay", "mode_label": "Paper", "lineage": {}, "created_ts_ms": 0}
    with database.write() as connection:
        for run_id, owner in owner_of.items():
            runs.add(connection, row | {"run_id": run_id, "owner": owner, "ranked": True})
            jobs.add(connection, "deploy", run_id, {"origin_id": run_id}, 0)
    return owner_of


def test_owners_take_turns_however_much_one_has_queued(database):
    owner_of = owned(database, a=5, b=2, c=1)

    found = [owner_of[claimed(database, 0).run_id] for _ in range(8)]

    assert found == ["a", "b", "c", "a", "b", "a", "a", "a"]


def test_an_owner_whose_turn_was_long_ago_is_next_wherever_its_job_stands(database):
    owner_of = owned(database, a=3)
    first = claimed(database, 0)
    owner_of |= owned(database, b=1)

    assert [owner_of[job.run_id] for job in (first, claimed(database, 0), claimed(database, 0))] == ["a", "b", "a"]


def test_jobs_of_an_owner_that_are_not_over_are_counted_by_kind(database):
    owned(database, a=3, b=1)
    job = claimed(database, 0)
    with database.write() as connection:
        jobs.finish(connection, job, JobStatus.DONE)
    claimed(database, 0)

    with database.read() as connection:
        found = [jobs.open_of(connection, owner, (kind,)) for owner in "abc" for kind in ("deploy", "competition")]

    assert found == [2, 0, 1, 0, 0, 0]


def test_of_many_workers_one_gets_the_job(database):
    queued(database, "run_1")

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: claimed(database, 0), range(32)))

    assert len([job for job in found if job]) == 1


def test_many_workers_share_many_jobs_without_loss(database):
    ids = queued(database, *(f"run_{n}" for n in range(40)))

    def work(_):
        taken = []
        while job := claimed(database, 0):
            taken.append(job.job_id)
        return taken

    with ThreadPoolExecutor(8) as pool:
        taken = [job_id for mine in pool.map(work, range(8)) for job_id in mine]

    assert sorted(taken) == ids


def test_a_lease_that_runs_out_frees_the_job_under_a_higher_token(database):
    queued(database, "run_1")
    dead = claimed(database, 0)

    assert claimed(database, LEASE - 1) is None
    alive = claimed(database, LEASE)

    assert (dead.attempt, alive.attempt) == (1, 2)


def test_a_renewed_lease_does_not_run_out(database):
    queued(database, "run_1")
    job = claimed(database, 0)

    with database.write() as connection:
        assert jobs.renew(connection, job, LEASE - 1, LEASE)

    assert claimed(database, LEASE) is None


def test_a_worker_that_was_overtaken_is_fenced_off(database):
    queued(database, "run_1")
    zombie, alive = claimed(database, 0), claimed(database, LEASE)

    with pytest.raises(LeaseLostError, match="attempt 1"), database.write() as connection:
        jobs.fence(connection, zombie)
    with database.write() as connection:
        assert not jobs.renew(connection, zombie, LEASE, LEASE)
        jobs.fence(connection, alive)
        jobs.finish(connection, alive, JobStatus.DONE)
        assert jobs.counts(connection) == {"queued": 0, "leased": 0, "done": 1, "failed": 0}
    with pytest.raises(LeaseLostError), database.write() as connection:
        jobs.fence(connection, alive)


def test_a_job_that_is_given_back_is_free_at_once_and_no_attempt_is_counted(database):
    queued(database, "run_1")
    left = claimed(database, 0)

    with database.write() as connection:
        assert jobs.give_back(connection, left)
        assert not jobs.give_back(connection, left)
    taken = claimed(database, 0)

    assert (taken.attempt, taken.postponed) == (2, 1)
    with pytest.raises(LeaseLostError), database.write() as connection:
        jobs.fence(connection, left)
    with database.write() as connection:
        assert not jobs.give_back(connection, left)
        jobs.fence(connection, taken)


def test_a_job_rests_the_longer_the_more_attempts_ended_without_a_word(database):
    (job_id,) = queued(database, "run_1")
    now, waited = 0, []
    for _ in range(6):
        free = now
        while not claimed(database, free):
            free += 2_000
        waited.append(free - now)
        now = free

    part = 1 + job_id % 8 / 8
    rests = [waited_ms - LEASE for waited_ms in waited[1:]]
    assert waited[0] == 0
    assert rests == pytest.approx([0, 10_000 * part, 60_000 * part, 300_000 * part, 300_000 * part], abs=2_000)


def test_jobs_of_one_process_that_died_are_not_all_tried_together_again(database):
    ids = queued(database, *(f"run_{n}" for n in range(4)))
    for now_ms in (0, LEASE):
        assert [claimed(database, now_ms) for _ in ids].count(None) == 0

    free_at = {}
    for now_ms in range(2 * LEASE, 2 * LEASE + 25_000, 250):
        while job := claimed(database, now_ms):
            free_at.setdefault(job.job_id, now_ms)

    assert sorted(free_at) == ids
    assert len(set(free_at.values())) == len(ids)


@pytest.mark.parametrize("jump_ms", [-10 * 365 * 86_400_000, -LEASE - 1, LEASE, 10 * 365 * 86_400_000])
def test_a_clock_that_jumps_never_strands_a_job(database, jump_ms):
    queued(database, "run_1")
    now = 1_000_000_000_000
    claimed(database, now)

    assert claimed(database, now + jump_ms).attempt == 2
