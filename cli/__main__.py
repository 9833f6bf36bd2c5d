"""The ``penstock`` command: parse the arguments, run, and print errors in one line."""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click
from click import shell_completion

from cli import commands, errors, goflags, loading, progress, suggesting
from toolkit.errors import PenstockError

_FAILED: Final[Mapping[str, int]] = {"diff": 2, "check": 2}
"""Exit codes of errors if 1 has another meaning: differences, as for diff(1), ``kubectl diff`` and
``flux diff``, or refused objects.
"""


class _Verbs(click.Group):
    """Commands that are imported when they are called, not when help lists them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click calls it
        return list(commands.VERBS)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take flags of the verbs before the verb, too (click)."""
        return super().parse_args(ctx, goflags.forward(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Parse the arguments after the verb as Go's programs do (click)."""
        suggesting.require_known(ctx, self, args[0], commands.VERBS)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, goflags.adapt(ctx, command, rest) if command else rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table's own lines: click would import each command for its help."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in commands.VERBS.items()])

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        incomplete: str,
    ) -> list[shell_completion.CompletionItem]:
        """Complete from the table, too."""
        return [
            shell_completion.CompletionItem(name, help=verb.summary)
            for name, verb in commands.VERBS.items()
            if name.startswith(incomplete)
        ]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in commands.VERBS:
            return None
        with loading.uncollected():
            module = importlib.import_module(
                f"{commands.__name__}.{commands.VERBS[cmd_name].module}"
            )
        found: click.Command = getattr(module, cmd_name)
        return found


@click.group(
    "penstock",
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="penstock", message="%(prog)s version v%(version)s")
def penstock() -> None:
    """GitOps for Kubernetes that checks every change at the API server.

    Penstock speaks Flux's API: the commands work on Flux's objects, whether Flux or Penstock
    reconciles them. The namespace is the first of these that is set: --namespace,
    PENSTOCK_NAMESPACE, FLUX_SYSTEM_NAMESPACE, the namespace of the kubeconfig context (unless it is
    "default"). Otherwise it is flux-system.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, 1 (`diff`, `check`: 2) after a message, or 130 after Ctrl-C."""
    words = sys.argv[1:] if argv is None else list(argv)
    failed = _FAILED.get(words[0], 1) if words else 1
    try:
        result = penstock.main(words, prog_name="penstock", standalone_mode=False)
    except click.ClickException as exc:
        return _told(exc, failed)
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader, for example `head`, has closed the pipe; do not flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except errors.DifferentError:
        return 1
    except (PenstockError, ExceptionGroup) as exc:
        _report(exc)
        return failed
    return result if isinstance(result, int) else 0


def _told(exc: click.ClickException, failed: int) -> int:
    """Print the error in the arguments; for a verb alone print its help, as ``flux`` does."""
    context = exc.ctx if isinstance(exc, click.exceptions.NoArgsIsHelpError) else None
    if context is not None and isinstance(context.command, click.Group):
        click.echo(exc.format_message())
        return 0
    exc.show()
    return failed


def _report(exc: Exception) -> None:
    """Print every error; one that is not ours is a bug and keeps its traceback."""
    failures = exc.exceptions if isinstance(exc, ExceptionGroup) else (exc,)
    for failure in failures:
        if not isinstance(failure, PenstockError):
            raise exc
        progress.failure(errors.explain(failure))


if __name__ == "__main__":
    sys.exit(main())
