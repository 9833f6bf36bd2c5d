"""``penstock install`` and ``penstock uninstall``: the processes in a cluster, as pods."""

from typing import TYPE_CHECKING, Any

import click

from cli import asking, examples, loading, output, progress, session
from cli.installing import choosing
from toolkit.kube import rbac
from toolkit.objects import key_of

if TYPE_CHECKING:
    from cli.installing import inspection, manifests, removing, writing
    from toolkit.apply import order
else:
    inspection = loading.Later("cli.installing.inspection")
    manifests = loading.Later("cli.installing.manifests")
    removing = loading.Later("cli.installing.removing")
    writing = loading.Later("cli.installing.writing")
    order = loading.Later("toolkit.apply.order")


@click.command(
    "install",
    epilog=examples.example("penstock install", "penstock install --export > penstock.yaml"),
)
@choosing.options
@choosing.anew
@click.option("--export", is_flag=True, help="Print the manifests, and contact no cluster.")
@click.option(
    "--force",
    is_flag=True,
    help="Install also where Flux runs, or where a Kustomization applies the installation.",
)
@session.options
def install(*, export: bool, force: bool, **said: Any) -> None:
    """Install Penstock in a cluster, or change or upgrade an installation.

    The options replace those of an earlier `penstock install`. The command ends when all pods are
    ready.
    """
    connection = session.connection(said)
    choice = choosing.choice(said, namespace=connection.namespace or rbac.NAMESPACE)
    objects = session.run_offline(manifests.build(choice))
    if export:
        written = [obj for stage in order.stages(objects) for obj in stage.objects]
        click.echo("---\n".join(map(output.to_yaml, written)), nl=False)
        for obj in manifests.secrets(choice):
            name = key_of(obj)
            progress.waiting(f"Secret {name} with the login for the image is not printed: make it")
        return

    async def work(opened: session.Session) -> None:
        await inspection.require_suitable(opened.api)
        if not force:
            await writing.require_free(opened.api, choice)
        await writing.write(opened, (*objects, *manifests.secrets(choice)))
        await writing.ready(opened, objects)
        progress.success(f"Penstock is installed in namespace {choice.namespace}")

    session.run(session.placed(connection, choice.namespace), work, pace="steps")


@click.command("uninstall", epilog=examples.example("penstock uninstall --dry-run"))
@click.option("--keep-namespace", is_flag=True, help="Keep the namespace and its other objects.")
@click.option(
    "--custom-resources",
    is_flag=True,
    help="Delete the kinds too, and with them all objects of these kinds, in all namespaces.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")
@click.option("--force", is_flag=True, help="Proceed even if objects are orphaned or lost.")
@click.option("-s", "--silent", is_flag=True, help="Do not ask for confirmation.")
@session.options
def uninstall(
    *,
    keep_namespace: bool,
    custom_resources: bool,
    dry_run: bool,
    force: bool,
    silent: bool,
    **said: Any,
) -> None:
    """Remove Penstock from a cluster; applied objects stay.

    Custom resources stay as well, without the finalizers of Penstock. The command refuses if
    objects would be orphaned or lost, and lists them.
    """
    connection = session.connection(said)
    wish = removing.Wish(keep_namespace=keep_namespace, custom_resources=custom_resources)
    namespace = connection.namespace or rbac.NAMESPACE

    async def work(opened: session.Session) -> None:
        found = await removing.survey(opened, wish)
        if found.is_empty(wish):
            progress.success("nothing is installed")
            return
        if not force:
            removing.require_harmless(found, namespace)
        if dry_run:
            _tell(found, wish, namespace)
            return
        if not silent:
            question = f"Remove Penstock from namespace {namespace}?"
            asking.require(question, otherwise="nothing was removed")
        await removing.remove(opened, found, wish)
        progress.success("Penstock is uninstalled")

    session.run(session.placed(connection, namespace), work, pace="steps")


def _tell(found: "removing.Survey", wish: "removing.Wish", namespace: str) -> None:
    refs = [*found.installed, *found.asking]
    refs += found.definitions if wish.custom_resources else ()
    for ref in refs:
        click.echo(f"{ref.gvk.kind}/{ref.key}")
    places = [] if wish.keep_namespace else [namespace]
    for place in (*places, *(ref.name for ref in found.emptied)):
        click.echo(f"Namespace/{place}")
    progress.success(f"{len(found.held)} custom resources would lose the finalizers of Penstock")
