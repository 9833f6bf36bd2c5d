"""``penstock create secret`` and ``create tenant``: objects of Kubernetes itself."""

from typing import Any, Final

import click

from cli import examples, kindtree, progress, session
from cli.commands import printing
from cli.creating import flags, objects, secrets, tenancy, upserting
from cli.creating.secrets import SecretRow
from toolkit.objects import key_of


def _secret(row: SecretRow) -> click.Command:
    @flags.options((*row.flags, *flags.SHARED))
    @click.argument("name")
    @session.options
    def command(*, name: str, **arguments: Any) -> None:
        connection = session.connection(arguments)
        data = row.data(arguments)

        def made(namespace: str) -> dict[str, Any]:
            obj = objects.secret(name, namespace, data, labels=arguments["label"], type_=row.type)
            if row.finish:
                row.finish(arguments, obj)
            return obj

        if arguments["export"]:
            printing.show([made(session.offline_namespace(connection))])
            return

        async def work(opened: session.Session) -> None:
            created = await upserting.upsert(opened, made(opened.namespace))
            progress.success(
                f"secret {name!r} {'created' if created else 'updated'} in "
                f"{opened.namespace!r} namespace"
            )

        session.run(connection, work)

    make = click.command(
        row.word,
        help=f"Create or update a Secret {row.purpose}.",
        epilog=examples.example(row.example),
    )
    return make(command)


@click.command(
    "tenant",
    epilog=examples.example(
        "penstock create tenant dev-team --with-namespace=frontend --label=environment=dev",
        "penstock create tenant dev-team --with-namespace=frontend --with-namespace=backend \\",
        "  --cluster-role=tenant-admin --export > dev-team.yaml",
    ),
)
@flags.options((*tenancy.FLAGS, *flags.SHARED))
@click.argument("name")
@session.options
def tenant(*, name: str, **arguments: Any) -> None:
    """Create or update a tenant: namespaces, and an account that may act in them."""
    connection = session.connection(arguments)
    made = tenancy.manifests(name, arguments)
    if arguments["export"]:
        printing.show(made)
        return

    async def work(opened: session.Session) -> None:
        for obj in made:
            progress.action(f"applying {obj['kind']} {key_of(obj)}")
            await upserting.upsert(opened, obj)
        progress.success("tenant setup completed")

    session.run(connection, work)


secret: Final = kindtree.AliasGroup(
    "secret", help="Create or update a Secret that sources and Receivers use.", no_args_is_help=True
)
for _row in secrets.ROWS:
    secret.add_command(_secret(_row))
