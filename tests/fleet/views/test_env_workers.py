"""What is said of env workers that keep their run waiting."""

from __future__ import annotations

from mission_tui.fleet.events.processes import EnvWorkers, LateWorker, SlowWorker, worker_sentences


def test_a_late_worker_is_named_with_its_silence_and_its_state() -> None:
    """Which of how many, since when, which process, in what state and where; how many more there are."""
    late = LateWorker(index=17, pid=4711, seconds=12.3, env=35, state="D", waits_in="nfs_wait")
    workers = EnvWorkers(count=32, late_count=3, late=(late, LateWorker(18, 4712, 12.3)))
    first, *others = worker_sentences(workers)
    assert first == (
        "worker 17 of 32 has not answered for 12 s (pid 4711, state D: waits for a device or disk, in environment 35, "
        "in the kernel's nfs_wait)"
    )
    assert others == [
        "worker 18 of 32 has not answered for 12 s (pid 4712)",
        "and 1 more of its workers",
    ]


def test_only_a_worker_that_holds_the_others_up_is_called_slow() -> None:
    """Twice the usual time is worth a sentence, a fifth more is not, and neither is it while another is late."""
    slow = SlowWorker(index=3, pid=9, step_s=0.004, usual_s=0.002)
    (sentence,) = worker_sentences(EnvWorkers(count=8, slowest=slow))
    assert sentence == "worker 3 of 8 (pid 9) holds the others up: 4 ms a step, 2.0 times the usual"
    assert not list(worker_sentences(EnvWorkers(count=8, slowest=SlowWorker(3, 9, 0.0024, 0.002))))
    assert len(list(worker_sentences(EnvWorkers(8, 1, (LateWorker(1, 2, 5.0),), slow)))) == 1
