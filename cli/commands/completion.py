"""``penstock completion``: the scripts with which a shell completes commands."""

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
    # Not ``ShellComplete.source``: for bash it runs a program to get the version.
    click.echo(shell_completion.ShellComplete.source(made))
