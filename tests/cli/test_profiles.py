"""Host profiles: what a launch makes of them, here, elsewhere, later, and for a preset that has changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.errors import PresetError
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.profile import HostProfile, settings_of, task_of
from mission_tui.records.tuning_files import host_fingerprint, load_profile, profile_path, versions_here, write_profile
from tests.shell import TINY

WORDS = ("env.vec=workers", "env.n_workers=2", "run.threads=2")


@pytest.fixture
def presets(tmp_path: Path) -> Path:
    """A folder with `tiny`, and `auto`, which is tiny with a host profile."""
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "tiny.toml").write_text(TINY)
    (folder / "auto.toml").write_text(f'profile = "auto"\nname = "auto"\n{TINY}')
    return folder


def spec_of(presets: Path, profile: str | None, *words: str, name: str = "tiny") -> Spec:
    """The spec of the one run that a launch would make."""
    wish = LaunchArguments((name,), assignments=words, profile=profile)
    (item,) = planned(wish, [presets], (), presets.parent / "profiles").items
    return item.spec


def tuned(presets: Path, name: str = "tiny", **changes: object) -> Path:
    """Write a profile of `name` for this machine, or with `changes`; where it lies."""
    own = spec_of(presets, "none", name=name)
    profile = HostProfile(
        preset=name,
        tuned="2026-11-22T05:00:00Z",
        sentence="faster: 1.50 x",
        host=host_fingerprint(),
        versions=versions_here(),
        work=task_of(own),
        settings=settings_of(own, WORDS),
        why={"run.threads": "1.20 x what stood before it"},
    )
    profile = replace(profile, **changes)
    path = profile_path(presets.parent / "profiles", name, profile.host["host"])
    write_profile(path, profile)
    return path


def machine(spec: Spec) -> tuple[str, int | None, int | None]:
    """What a profile may set, here."""
    return spec.env.vec, spec.env.n_workers, spec.run.threads


def test_it_lies_over_the_preset_and_under_the_words(presets: Path) -> None:
    """Its settings are taken, said, and what `--set` says still counts; without it nothing changes."""
    path = tuned(presets)
    spec = spec_of(presets, "auto")
    assert machine(spec) == ("workers", 2, 2)
    assert f"host profile {path.name} sets env.vec = workers, env.n_workers = 2, run.threads = 2" in cautions(spec)
    assert machine(spec_of(presets, "auto", "run.threads=1")) == ("workers", 2, 1)
    assert spec_of(presets, None) == spec_of(presets, "none")
    assert machine(spec_of(presets, None)) == ("inline", None, None)
    assert machine(spec_of(presets, str(path))) == ("workers", 2, 2)


def test_a_preset_asks_for_it_itself(presets: Path) -> None:
    """`profile = "auto"` in the file; `--profile none` takes it back."""
    assert "there is no host profile of auto yet" in (spec_of(presets, None, name="auto").profile or "")
    tuned(presets, "auto")
    assert machine(spec_of(presets, None, name="auto")) == ("workers", 2, 2)
    assert machine(spec_of(presets, "none", name="auto")) == ("inline", None, None)


def test_a_profile_may_say_that_nothing_was_better(presets: Path) -> None:
    """It changes nothing, and says so instead of asking for a tune."""
    tuned(presets, settings={}, why={})
    spec = spec_of(presets, "auto")
    assert machine(spec) == ("inline", None, None)
    assert "sets nothing: nothing was certainly better" in (spec.profile or "")


def test_another_machines_profile_is_passed_over_and_said(presets: Path) -> None:
    """With `auto`; who names the file has it, with the same warning."""
    path = tuned(presets, host={"host": "elsewhere", "cores": "512"})
    spec = spec_of(presets, "auto")
    assert machine(spec) == ("inline", None, None)
    assert "was tuned on another machine" in (spec.profile or "")
    assert "so it is not used" in (spec.profile or "")
    named = spec_of(presets, str(path))
    assert machine(named) == ("workers", 2, 2)
    assert "was tuned on another machine" in (named.profile or "")


def test_another_version_is_warned_of(presets: Path) -> None:
    """It is used all the same: speeds seldom turn round with a version."""
    tuned(presets, versions={"torch": "1.0"})
    spec = spec_of(presets, "auto")
    assert machine(spec) == ("workers", 2, 2)
    assert "it was tuned with another version (torch 1.0 then" in (spec.profile or "")


def test_a_preset_that_has_changed_is_another_task(presets: Path) -> None:
    """Nothing of the profile is used, so a number of workers never meets environments that it does not divide."""
    tuned(presets)
    spec = spec_of(presets, "auto", "env.n_envs=3")
    assert machine(spec) == ("inline", None, None)
    assert "was tuned for another task (env.n_envs 4 then, 3 now" in (spec.profile or "")
    assert machine(spec_of(presets, "auto", "ppo.learning_rate=1e-4")) == ("workers", 2, 2)


def test_what_was_written_is_read(presets: Path) -> None:
    """The file holds all of the profile, and nothing beside it is left."""
    path = tuned(presets)
    profile = load_profile(path)
    assert profile.settings == {"env": {"vec": "workers", "n_workers": 2}, "run": {"threads": 2}}
    assert (profile.host, profile.why) == (host_fingerprint(), {"run.threads": "1.20 x what stood before it"})
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[set.run]", "[set.runn]", "unknown key set.runn"),
        ("threads = 2", "threads = 0", "set.run.threads = 0 must be"),
        ("threads = 2", "seed = 3", "set.run.seed cannot be set here"),
        ("threads = 2", "compile = 'perhaps'", "true or false"),
        ('preset = "tiny"', "preset = 3", "preset = 3 must be text"),
        ("[host]", "[hots]", "unknown key hots"),
        ("n_workers = 2", "n_workers = 3", "cannot be shared evenly by env.n_workers = 3"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused(presets: Path, old: str, new: str, complaint: str) -> None:
    """The sentence names the file and the key."""
    path = tuned(presets)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(PresetError) as refused:
        spec_of(presets, "auto")
    assert complaint in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_preset_names_auto_or_a_file(presets: Path) -> None:
    """Anything else is a slip."""
    (presets / "odd.toml").write_text(f'profile = "fast"\n{TINY}')
    with pytest.raises(PresetError, match=r"profile = .fast. must be"):
        spec_of(presets, None, name=str(presets / "odd.toml"))
