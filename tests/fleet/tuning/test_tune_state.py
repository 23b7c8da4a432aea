"""The course of a tune: what is probed, what is refused, what wins, and that a journal cut anywhere goes on alike."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec, rollout_size
from mission_tui.fleet.tuning.record import (
    GIVE_UP_TIMES,
    KNOBS,
    DeviceSpeeds,
    ProbeDone,
    Resolved,
    TuneBegun,
    TunePlan,
    patience_s,
    probe_spec,
)
from mission_tui.fleet.tuning.tune_state import (
    PAIRS,
    Field,
    NextProbe,
    TuneState,
    challengers,
    label_of,
    shape_refusal,
    steps_per_sample,
    tune_result,
    tune_state,
)

TO_COME = 3 * 3 + 2 * 3 + 2 * 4
"""Probes of three numbers of threads and of both ways to compile in three rounds each, and four pairs."""

Speed = Callable[[Spec], float | None]
Load = Callable[[NextProbe], float | None]


def spec_with(n_envs: int = 8, n_steps: int = 32, batch_size: int = 64, **env: object) -> Spec:
    """A small training of CartPole."""
    return Spec(
        preset="tiny",
        env=msgspec.convert({"id": "CartPole-v1", "n_envs": n_envs, **env}, EnvSpec),
        ppo=PpoSpec(n_steps=n_steps, batch_size=batch_size, n_epochs=4),
        run=RunSpec(total_timesteps=1_000_000),
    )


def begun_with(spec: Spec, cores: int = 4, **plan: object) -> TuneBegun:
    """The first line of a tune's journal."""
    return TuneBegun(seq=1, t=0.0, spec=spec, plan=msgspec.convert(plan, TunePlan), cores=cores, host={"host": "box"})


def run_through(
    begun: TuneBegun,
    speed: Speed,
    done: list[ProbeDone] | None = None,
    load: Load = lambda _: None,
    share: float | None = None,
) -> tuple[TuneState, list[ProbeDone]]:
    """Probe what the course asks for until it is over; a probe takes 10 s, and None stands for one that fails.

    `load` is what other work takes of all cores meanwhile, in percent, `share` what rollouts take of the time.
    """
    done = list(done or [])
    kept: dict[object, Field] = {}
    while (ask := (found := tune_state(begun, done, kept)).ask) is not None:
        assert len(done) < 500
        rate = speed(ask.candidate.spec)
        resolved = Resolved("inline", None, 1)
        words = ask.candidate.words
        fields = {"steps_per_s": rate, "resolved": resolved, "learn_s": 10.0} if rate else {"why": "it fails"}
        at = len(done) + 2
        probe = ProbeDone(seq=at, t=0.0, stage=ask.stage, round=ask.round, words=words, wall_s=10.0, **fields)
        probe = msgspec.structs.replace(probe, elsewhere_percent=load(ask), rollout_share=share)
        done.append(probe)
    return found, done


def two_workers_and_threads(spec: Spec) -> float | None:
    """A machine on which two workers and two threads pay."""
    on_two = spec.env.vec == "workers" and spec.env.n_workers == 2
    rate = 1000.0 * (1.5 if on_two else 1.0) * (1.3 if spec.run.threads == 2 else 1.0)
    return None if spec.env.vec == "native" else rate


def test_the_fastest_settings_are_found_and_proved() -> None:
    """Knob after knob; what fails is out; the fresh pairs have the last word, and the profile sets just that."""
    begun = begun_with(spec_with())
    found, done = run_through(begun, two_workers_and_threads)
    assert set(found.champion) == {"env.vec=workers", "env.n_workers=2", "run.threads=2"}
    assert found.ratio is not None
    assert found.ratio.verdict == "faster"
    end = tune_result(begun, done, "now")
    assert end.better
    assert end.profile.settings == {"env": {"vec": "workers", "n_workers": 2}, "run": {"threads": 2}}
    assert set(end.profile.why) == {"env.vec", "env.n_workers", "run.threads"}
    assert any(row.fate == "dropped" and row.why == "it fails" for row in end.rows)


def test_nothing_better_is_an_answer() -> None:
    """Where everything is as fast, the preset's own settings stay and no pair is run."""
    begun = begun_with(spec_with())
    found, done = run_through(begun, lambda _: 1000.0)
    assert (found.champion, found.ratio) == ((), None)
    end = tune_result(begun, done, "now")
    assert not end.better
    assert end.sentence.startswith("nothing was better")
    assert not end.profile.settings


def test_a_tune_on_a_machine_with_a_gpu_says_where_the_net_is_faster() -> None:
    """First of its notes; nothing of it on a machine without one."""
    speeds = DeviceSpeeds(cpu_s=(1.0, 1.0, 1.01), gpu_s=(3.1, 3.1, 3.1))
    begun = begun_with(spec_with())
    _, done = run_through(begun, lambda _: 1000.0)
    assert not [note for note in tune_result(begun, done, "now").notes if "this net" in note]
    with_gpu = msgspec.structs.replace(begun, devices=speeds)
    assert tune_result(with_gpu, done, "now").notes[0] == speeds.sentence


def test_luck_in_the_race_does_not_win_the_pairs() -> None:
    """Of equals on a noisy machine hardly one tune in twenty calls something faster."""
    draws = random.Random(4)
    begun = begun_with(spec_with(), knobs=("vec",), rounds=2)
    won = sum(bool(run_through(begun, lambda _: draws.lognormvariate(7.0, 0.1))[0].champion) for _ in range(40))
    assert won <= 5


def test_a_pair_that_met_other_work_is_probed_again() -> None:
    """The second pair is left out, and as many count as were asked for."""
    begun = begun_with(spec_with())

    def load(ask: NextProbe) -> float:
        return 45.0 if (ask.stage, ask.round) == (PAIRS, 2) and ask.candidate.words else 1.0

    calm, without = run_through(begun, two_workers_and_threads)
    found, done = run_through(begun, two_workers_and_threads, load=load)
    assert [probe.round for probe in done if probe.stage == PAIRS] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(done) == len(without) + 2
    assert (found.champion, found.ratio, found.pairs) == (calm.champion, calm.ratio, calm.pairs)


@pytest.mark.parametrize(
    ("share", "order"),
    [
        (None, ["vec", "threads", "compile", "shape"]),
        (0.5, ["vec", "threads", "compile", "shape"]),
        (0.2, ["threads", "compile", "vec", "shape"]),
    ],
)
def test_what_takes_most_of_the_time_is_tuned_first(share: float | None, order: list[str]) -> None:
    """Rollouts or learning, as the first probe of the preset says; a budget that runs out cuts what comes last."""
    knobs = ("vec", "threads", "compile", "shape")
    begun = begun_with(spec_with(), knobs=knobs, budget_s=60.0)
    found, done = run_through(begun, lambda _: 1000.0, share=share)
    assert [*(stage.knob for stage in found.stages), *found.cut] == order
    _, again = run_through(begun, lambda _: 1000.0, done[:3], share=share)
    assert again == done


@pytest.mark.parametrize(("budget_s", "cut"), [(1800.0, []), (65.0, ["compile"])])
def test_what_could_bring_nothing_is_not_tried(budget_s: float, cut: list[str]) -> None:
    """Where rollouts take less than 5 % of the time, other ways to step environments are not probed, and it is said;
    no larger budget would help them.
    """
    begun = begun_with(spec_with(), budget_s=budget_s)
    found, done = run_through(begun, two_workers_and_threads, share=0.04)
    assert found.champion == ("run.threads=2",)
    assert found.cut == cut
    asks = [tune_state(begun, done[:at]).ask for at in range(1, 3)]
    assert [ask and ask.most for ask in asks] == [TO_COME - 1, TO_COME - 2]
    assert not any("env.vec" in word for probe in done for word in probe.words)
    rows = [row for row in tune_result(begun, done, "now").rows if row.stage == "vec" and row.words]
    assert {(row.fate, row.why) for row in rows} == {
        ("not tried", "rollouts take 4% of the time, so it could not bring 5%")
    }


def test_a_repeat_chooses_the_same_speed() -> None:
    """On a machine whose noise is 3 %, what is chosen is within 5 % of the fastest there is."""
    draws = random.Random(5)
    begun = begun_with(spec_with(), knobs=("vec",))

    def true_speed(spec: Spec) -> float:
        return {2: 1300.0, 4: 1290.0, 8: 900.0}.get(spec.env.n_workers or 0, 1000.0)

    for _ in range(15):
        found, _ = run_through(begun, lambda spec: true_speed(spec) * draws.lognormvariate(0.0, 0.03))
        assert true_speed(change(begun.spec, found.champion)) >= 0.95 * 1300.0


def test_a_journal_cut_anywhere_goes_on_alike() -> None:
    """A tune that was killed after any probe asks for the same next one, and ends the same."""
    begun = begun_with(spec_with())
    whole, done = run_through(begun, two_workers_and_threads)
    for cut in range(0, len(done), 4):
        again, more = run_through(begun, two_workers_and_threads, done[:cut])
        assert again.champion == whole.champion
        assert more == done


def test_what_is_asked_is_never_more_than_was_said() -> None:
    """The number of probes to come is an upper bound, from the first probe on of each stage that is known."""
    begun = begun_with(spec_with(vec="inline"), knobs=("vec", "threads"))
    _, done = run_through(begun, lambda spec: 1000.0 + 500.0 * (spec.env.n_workers == 2))
    for cut in range(1, len(done), 2):
        ask = tune_state(begun, done[:cut]).ask
        assert ask is not None
        assert len(done) <= cut + 1 + ask.most


def test_the_budget_ends_the_rounds_and_names_what_it_cut() -> None:
    """No new round begins after it, the pairs are run all the same, and what was not tried is said."""
    begun = begun_with(spec_with(), budget_s=45.0)
    found, done = run_through(begun, two_workers_and_threads)
    assert set(found.cut) == {"threads", "compile"}
    assert {probe.round for probe in done if probe.stage == "vec"} == {1}
    notes = " ".join(tune_result(begun, done, "now").notes)
    assert "left no time for threads, compile" in notes
    assert "ended vec after 1 of 3 rounds" in notes


@pytest.mark.parametrize("cores", [1, 2, 6, 12, 64])
@pytest.mark.parametrize("n_envs", [1, 7, 8, 48, 480])
def test_only_what_a_launch_accepts_is_tried(cores: int, n_envs: int) -> None:
    """Workers divide the environments, no more than twice the cores; shapes keep their guard; nothing comes twice."""
    own = spec_with(n_envs, 64, 2 * n_envs)
    for knob in KNOBS:
        found, refused = challengers(knob, own, (), cores, Resolved("inline", None, 1))
        assert knob == "shape" or not refused
        assert len({msgspec.json.encode(each.spec) for each in found}) == len(found) <= 12
        for each in found:
            assert each.spec == change(own, each.words) != own
            if each.spec.env.n_workers is not None:
                shares = each.spec.env.n_workers + (each.spec.env.vec == "split")
                assert n_envs % shares == 0
                assert shares <= (cores if each.spec.env.vec == "split" else max(2, 2 * cores))
            buffer, batch = rollout_size(each.spec), plan_batch(each.spec).batch_size
            assert batch <= buffer
            assert buffer % batch == 0
            assert buffer % each.spec.env.n_envs == 0
            assert 0.5 <= buffer / rollout_size(own) <= 2.0
            assert 0.49 <= steps_per_sample(each.spec) / steps_per_sample(own) <= 2.01
            if knob != "shape":
                assert (each.spec.ppo, each.spec.env.n_envs) == (own.ppo, n_envs)


def test_what_auto_chose_is_not_tried_again() -> None:
    """The preset leaves `env.vec` open, and the first probe says that it stands for inline with one thread."""
    own = spec_with()
    vec, _ = challengers("vec", own, (), 4, Resolved("inline", None, 1))
    threads, _ = challengers("threads", own, (), 4, Resolved("inline", None, 1))
    assert "inline" not in {each.spec.env.vec for each in vec}
    assert [each.spec.run.threads for each in threads] == [2, 4]


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ((), "as it is"),
        (("env.vec=native", "env.n_workers=none"), "native"),
        (("env.vec=workers", "env.n_workers=4", "run.threads=1"), "4 workers, 1 thread"),
        (("env.vec=split", "env.n_workers=3"), "split, 3 workers"),
        (("env.n_workers=2", "run.compile=false", "run.precision=bf16"), "2 workers, not compiled, bf16"),
        (("env.n_envs=64", "ppo.n_steps=128"), "n_envs 64, n_steps 128"),
    ],
)
def test_settings_are_called_as_people_call_them(words: tuple[str, ...], label: str) -> None:
    """Short enough for a column."""
    assert label_of(words) == label


def test_the_stock_engine_refuses_what_it_cannot() -> None:
    """The refusal is the launch's own sentence."""
    own = change(spec_with(), ("run.engine=stock",))
    found, refused = challengers("compile", own, (), 4, Resolved("inline"))
    assert found == ()
    assert "run.engine = 'fast'" in refused[0].why


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("env.n_envs=10", "env.n_workers=4"), "cannot be shared evenly by env.n_workers = 4; nearest valid: "),
        (("ppo.batch_size=512",), "is larger than the rollout"),
        (("run.compile=maybe",), "true or false"),
    ],
)
def test_the_rules_of_source_002_are_refused_with_the_nearest_valid_value(
    words: tuple[str, ...], sentence: str
) -> None:
    """num_envs % num_workers, batch >= minibatch, and truth that is no text."""
    with pytest.raises(MissionError, match=sentence):
        change(spec_with(), words)


@pytest.mark.parametrize("word", ["False", "false", "FALSE"])
def test_false_is_false(word: str) -> None:
    """Source 002's trap: there `--train.compile False` is true."""
    on = change(spec_with(), ("run.compile=True",))
    assert on.run.compile
    assert not change(on, (f"run.compile={word}",)).run.compile


def test_a_shape_too_far_away_is_refused_by_its_reason() -> None:
    """Four times the buffer, a quarter of the gradient steps, pieces of four steps."""
    own = spec_with(8, 64, 64)
    assert "beyond 2 times" in (shape_refusal(own, spec_with(32, 64, 64)) or "")
    assert "gradient steps per sample" in (shape_refusal(own, spec_with(8, 64, 256)) or "")
    assert "fewer than 16" in (shape_refusal(own, spec_with(128, 4, 64)) or "")
    assert shape_refusal(own, spec_with(16, 32, 64)) is None


def test_a_probe_waits_as_long_as_the_preset_itself_took() -> None:
    """The first one as long as it takes; then three times the slowest of the preset's own, and never less than that."""
    plan = TunePlan(probe_s=5.0)
    own = ProbeDone(seq=2, t=0.0, stage="own", round=1, words=(), wall_s=70.0, steps_per_s=100.0, learn_s=60.0)
    assert patience_s(plan, [own]) == GIVE_UP_TIMES * 60.0
    assert patience_s(plan, []) > 1000.0


def test_a_probe_is_the_training_alone() -> None:
    """It ends by itself should everybody die, restarts never, and changes nothing that decides its speed."""
    own = change(spec_with(), ("keep.restart.most=3", "evaluate.every=1000", "keep.limits.marginal_gain=0.1"))
    probe = probe_spec(own, 7, 90.0)
    assert (probe.run.total_timesteps, probe.run.duration_s, probe.run.seed) == (None, 90.0, 7)
    assert (probe.keep.restart.most, probe.evaluate.every, probe.keep.limits.marginal_gain) == (0, None, None)
    assert (probe.env, probe.ppo) == (own.env, own.ppo)
