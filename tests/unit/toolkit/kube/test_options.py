"""The flags are Flux's: names, defaults, notations."""

import dataclasses

import pytest

from toolkit.kube import options

COMPONENTS = ("source", "kustomize")


def parse(*argv: str) -> options.Options:
    return options.parse(argv, components=COMPONENTS)


def test_the_table_and_the_dataclass_agree_on_names_and_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RUNTIME_NAMESPACE", raising=False)
    names = [flag.name.replace("-", "_") for flag in options.FLAGS]

    assert sorted(names) == sorted(field.name for field in dataclasses.fields(options.Options))
    assert parse() == options.Options(components=COMPONENTS)


def test_go_durations_and_bare_booleans_are_understood() -> None:
    result = parse(
        "--min-retry-delay=1m30s",
        "--max-retry-delay",
        "2h",
        "--enable-leader-election",
        "--watch-all-namespaces=false",
        "--feature-gates=A=true,B=false",
    )

    assert (result.min_retry_delay, result.max_retry_delay) == (90.0, 7200.0)
    assert result.enable_leader_election
    assert not result.watch_all_namespaces
    assert result.feature_gates == {"A": True, "B": False}


def test_arguments_of_fluxs_helm_controller_are_understood() -> None:
    """Flux's own manifests with its out-of-memory watch start this process."""
    result = parse(
        "--feature-gates=OOMWatch=true",
        "--oom-watch-interval=250ms",
        "--oom-watch-memory-threshold=90",
        "--oom-watch-max-memory-path=/sys/fs/cgroup/memory.max",
        "--oom-watch-current-memory-path=/sys/fs/cgroup/memory.current",
        "--snapshot-digest-algo=sha256",
    )

    assert result.feature_gates == {"OOMWatch": True}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--concurent=3"], "did you mean --concurrent?"),
        (["--requeue-dependency=fast"], "invalid duration 'fast'"),
        (["--log-level=loud"], "loud"),
        (["--snapshot-digest-algo=sha512"], "(choose from 'sha256')"),
        (["--no-remote-bases=maybe"], "'maybe' is neither true nor false"),
        (["--components=sauce"], "no component 'sauce'; there are source, kustomize"),
        (["--concur=3"], "unrecognized arguments"),
    ],
)
def test_a_wrong_line_is_explained(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(*argv)

    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_controller_settings_follow_the_flags() -> None:
    result = parse("--watch-all-namespaces=false", "--watch-label-selector=key=shard1")

    settings = result.controller(concurrent=2, namespace="own")

    assert (settings.concurrent, settings.namespace) == (2, "own")
    assert settings.label_selector == "key=shard1"
    assert settings.interval_jitter == 0.05
    assert parse("--concurrent=9").controller(concurrent=2, namespace="own").concurrent == 9
    assert parse().controller(concurrent=2, namespace="own").namespace == ""


@pytest.mark.parametrize(
    ("selector", "lease"),
    [
        ("", "source-controller"),
        ("sharding.fluxcd.io/key=shard1", "source-controller-shard1"),
        ("!sharding.fluxcd.io/key", "source-controller"),
        ("sharding.fluxcd.io/key=Shard/1", "source-controller"),
        ("app=web", "source-controller"),
    ],
)
def test_a_shard_elects_a_leader_of_its_own(selector: str, lease: str) -> None:
    assert parse(f"--watch-label-selector={selector}").lease("source-controller") == lease


def test_the_runtime_namespace_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_NAMESPACE", "flux-system")

    assert parse().runtime_namespace == "flux-system"
    assert parse("--runtime-namespace=other").runtime_namespace == "other"


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")

    text = capsys.readouterr().out
    assert all(f"--{flag.name}" in text for flag in options.FLAGS)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1000", 1000), ("500Mi", 500 << 20), ("2Gi", 2 << 30)]
)
def test_sizes_are_quantities_of_bytes(text: str, size: int) -> None:
    assert parse(f"--storage-namespace-quota={text}").storage_namespace_quota == size


@pytest.mark.parametrize("text", ["-1", "2G", "1.5Gi", "Gi", "2GiGi", "much", ""])
def test_what_is_no_size_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(f"--storage-namespace-quota={text}")

    assert "is not a size" in capsys.readouterr().err


@pytest.mark.parametrize("argv", ["--help", "--nonsense"])
def test_help_and_errors_name_the_program(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse([argv], components=("webhooks",), program="webhooks")

    said = capsys.readouterr()
    assert f"{said.out}{said.err}".startswith("usage: python -m webhooks ")
