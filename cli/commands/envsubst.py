"""``penstock envsubst``: variables of the environment in a text, as ``spec.postBuild`` does it."""

import os
import sys
from typing import TYPE_CHECKING

import click

from cli import errors, examples, loading, session
from toolkit.turns import ALONE

if TYPE_CHECKING:
    from toolkit.native import calls
    from toolkit.render import substitute
else:
    calls = loading.Later("toolkit.native.calls")
    substitute = loading.Later("toolkit.render.substitute")

_SECONDS = 60.0


@click.command(
    "envsubst",
    epilog=examples.example(
        "export cluster_region=eu-central-1", "kustomize build . | penstock envsubst --strict"
    ),
)
@click.option(
    "--strict", is_flag=True, help="Fail if a variable has neither a value nor a default."
)
def envsubst(*, strict: bool) -> None:
    """Replace variables in standard input as post builds do."""
    try:
        text = sys.stdin.read()
    except UnicodeError as exc:
        raise errors.UsageError(f"standard input is not UTF-8: {exc}") from exc
    click.echo(session.run_offline(_replaced(text, strict=strict)), nl=False)


async def _replaced(text: str, *, strict: bool) -> str:
    # Values that are not UTF-8 cannot be sent to the worker, and are invalid in a manifest.
    variables = {
        name.decode(errors="replace"): value.decode(errors="replace")
        for name, value in os.environb.items()
    }
    pool = calls.start(size=1)
    try:
        return await substitute.substitute_text(
            pool, text, variables, strict=strict, flow=ALONE, timeout=_SECONDS
        )
    finally:
        await pool.close()
