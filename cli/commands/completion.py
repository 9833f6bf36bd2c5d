"""``penstock completion``: what a shell runs to complete commands."""

import click
from click import shell_completion

from cli import examples

_SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command(
    "completion",
    epilog=examples.example(
        ". <(penstock completion bash)",
        "penstock completion fish > ~/.config/fish/completions/penstock.fish",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(context: click.Context, /, *, shell: str) -> None:
    """Print a script for shell completion of commands and options."""
    found = shell_completion.get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}", context)
    made = found(context.find_root().command, {}, "penstock", "_PENSTOCK_COMPLETE")
    # Not its own `source`: that of bash runs a program to ask for its version.
    click.echo(shell_completion.ShellComplete.source(made))
