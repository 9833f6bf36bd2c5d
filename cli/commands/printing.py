"""Manifests on stdout, one YAML document each, for ``create --export`` and ``export``."""

from collections.abc import Iterable

import click

from cli import output
from toolkit.objects import Json


def show(made: Iterable[Json]) -> None:
    """Print the objects."""
    click.echo("".join(f"---\n{output.to_yaml(obj)}" for obj in made), nl=False)
