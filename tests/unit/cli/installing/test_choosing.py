"""What the options of an installation say, also as Flux's command has them."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from cli.errors import UsageError
from cli.installing import choosing, inspection
from cli.installing.manifests import Choice


def chosen(*words: str) -> Choice:
    found: list[Choice] = []

    @click.command()
    @choosing.options
    @choosing.anew
    def command(**said: Any) -> None:
        found.append(choosing.choice(said, namespace="penstock-system"))
        assert said == {}

    ended = CliRunner().invoke(command, words)
    if isinstance(ended.exception, UsageError):
        raise ended.exception
    assert ended.exit_code == 0, ended.output
    return found[0]


def test_components_of_flux_are_in_the_base() -> None:
    extra = "image-reflector-controller,image-automation-controller"

    assert chosen("--components-extra", extra).components == ()
    assert chosen(
        "--components", "source-controller,ha", "--components-extra", "ha"
    ).components == ("ha",)


def test_what_is_installed_besides_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        ended = CliRunner().invoke(_command(), ["--components", "source-controller"])

    assert "all controllers are installed, also helm-controller, kustomize" in ended.stderr


def _command() -> click.Command:
    @click.command()
    @choosing.options
    def command(**said: Any) -> None:
        choosing.choice(said, namespace="x")

    return command


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--version", "v2.9.0"), "--version v2.9.0: this command installs v"),
        (("--cluster-domain", "a..b"), "--cluster-domain: 'a..b' is not a name"),
        (("--registry", "https://x"), "--registry: 'https://x' is not a name"),
        (("--registry", "a", "--image", "b/c"), "leave --registry out"),
        (("--registry-creds", "a:b"), "needs the Secret's name in --image-pull-secret"),
        (
            ("--registry-creds", "a:b", "--image-pull-secret", "s"),
            "and the registry in --registry or --image",
        ),
        (
            ("--registry-creds", "a", "--image-pull-secret", "s", "--registry", "r"),
            "must be USER:PASSWORD",
        ),
    ],
)
def test_what_cannot_be_installed_is_refused(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError) as raised:
        chosen(*words)

    assert told in str(raised.value)


def test_a_version_of_our_own_is_no_wish() -> None:
    assert chosen("--version", "latest") == chosen()


def test_processes_that_are_missing_are_named() -> None:
    there = {"source-controller", "image-controller"}
    wanted = ("source-watcher", "image-reflector-controller", "helm-controller")

    (found,) = inspection.absent(there, wanted)

    assert (found.check, found.ok) == ("Deployment helm-controller", False)
