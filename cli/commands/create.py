"""``penstock create``: objects of every kind from flags, written to the cluster or printed.

The rows are in ``cli.creating``; here they become commands.
"""

from typing import Any, Final

import click

from cli import asking, examples, kindtree, progress, reconciling, session, status
from cli.commands import create_others, printing
from cli.creating import appliers, flags, images, notifying, objects, sources, upserting
from cli.creating.objects import Credentials, Row
from toolkit.objects import key_of

ROWS: Final = (
    sources.GIT,
    sources.OCI,
    sources.HELM,
    sources.BUCKET_ROW,
    sources.CHART,
    appliers.KUSTOMIZATION_ROW,
    appliers.HELM_RELEASE_ROW,
    notifying.ALERT_ROW,
    notifying.PROVIDER_ROW,
    notifying.RECEIVER_ROW,
    images.REPOSITORY,
    images.POLICY,
    images.UPDATE,
)
"""One row per kind that a person creates: the others are made by controllers, or from files."""


@click.group("create", cls=kindtree.AliasGroup, no_args_is_help=True)
def create() -> None:
    """Create or update an object, or print it with --export."""


_SECRET: Final = ("password", "private_key_file", "ca_file", "key_file", "access_key", "secret_key")
"""Values that are never printed with a source."""


def _command(row: Row, word: str) -> click.Command:
    @flags.options((*row.flags, *flags.SHARED))
    @click.argument("name")
    @session.options
    def command(*, name: str, **arguments: Any) -> None:
        connection = session.connection(arguments)
        if arguments["export"]:
            namespace = session.offline_namespace(connection)
            if row.credentials and any(arguments.get(key) for key in _SECRET):
                progress.failure(
                    "credentials are not exported: make a Secret with `penstock create secret`, "
                    "and name it with --secret-ref"
                )
            printing.show([objects.manifest(row, name, namespace, arguments)])
            return
        given = row.credentials(arguments) if row.credentials else None

        async def work(opened: session.Session) -> None:
            await _write(opened, row, name, arguments, given)

        session.run(connection, work)

    summary = f"Create or update {kindtree.article(row.kind)} {row.kind.kind}."
    make = click.command(word, help=summary, epilog=examples.example(row.example))
    return make(command)


async def _write(
    opened: session.Session,
    row: Row,
    name: str,
    values: flags.Values,
    given: Credentials | None,
) -> None:
    obj = objects.manifest(row, name, opened.namespace, values)
    if given is not None:
        secret = row.secret.format(name=name)
        await _write_credentials(opened, secret, given, values)
        for field in given.fields:
            obj["spec"][field] = flags.named(secret)
    progress.action(f"applying {row.kind.kind}")
    created = await upserting.upsert(opened, obj)
    progress.success(f"{row.kind.kind} {'created' if created else 'updated'}")
    if not status.static(obj):
        await reconciling.wait(opened, row.kind, key_of(obj))
        progress.success(f"{row.kind.kind} {name} is ready")


async def _write_credentials(
    opened: session.Session, name: str, given: Credentials, values: flags.Values
) -> None:
    if "identity" in given.data and not values["silent"] and not values["private_key_file"]:
        asking.require(
            "Have you added the deploy key to your repository",
            otherwise="nothing was created, because the key must be added to the repository first",
        )
    progress.action("applying Secret with the credentials")
    secret = objects.secret(name, opened.namespace, given.data, labels=values["label"])
    await upserting.upsert(opened, secret)
    progress.success("authentication configured")


_BY_KIND: Final = {row.kind.kind: row for row in ROWS}
kindtree.attach(
    create,
    lambda kind, word: _command(_BY_KIND[kind.kind], word),
    kinds=tuple(row.kind for row in ROWS),
)
create.add_command(create_others.secret)
create.add_command(create_others.tenant)
