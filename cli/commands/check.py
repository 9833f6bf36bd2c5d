"""``penstock check``: what of a repository or a cluster would be refused here, and why."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from cli import age, errors, examples, kindtree, loading, output, progress, session, table, terminal
from cli.check import flags
from cli.check.subjects import Subject
from cli.connection import Connection
from cli.creating.flags import words
from cli.stack import state
from toolkit.kube import rbac
from toolkit.objects import Json

if TYPE_CHECKING:
    from cli.check import builds, cluster, fetching, files, judge, report, schemas
    from cli.installing import inspection
    from cli.installing.inspection import Finding
    from cli.local import workspace
    from cli.stack import install
    from toolkit.kube import options
    from toolkit.policy import references
else:
    builds = loading.Later("cli.check.builds")
    cluster = loading.Later("cli.check.cluster")
    fetching = loading.Later("cli.check.fetching")
    files = loading.Later("cli.check.files")
    judge = loading.Later("cli.check.judge")
    report = loading.Later("cli.check.report")
    schemas = loading.Later("cli.check.schemas")
    inspection = loading.Later("cli.installing.inspection")
    install = loading.Later("cli.stack.install")
    workspace = loading.Later("cli.local.workspace")
    options = loading.Later("toolkit.kube.options")
    references = loading.Later("toolkit.policy.references")

Function = TypeVar("Function", bound=Callable[..., Any])

ENFORCED: Final = "enforce"
"""The default of ``--cross-namespace-refs`` of the processes."""
_BUILD_SECONDS: Final = 60.0
_NOTES: Final = 10
"""Lines about one thing on stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Assumptions about the installation, and options for the findings."""

    install_namespace: str
    blocked: bool
    mode: str
    fmt: str
    fix: str


@click.group(
    "check",
    cls=kindtree.AliasGroup,
    invoke_without_command=True,
    epilog=examples.example("penstock check", "penstock check --pre -o json"),
)
@click.option("--pre", is_flag=True, help="Check only whether the cluster meets the requirements.")
@click.option(
    "--components",
    default="",
    metavar="NAMES",
    help="Processes that must be installed, separated by commas.",
)
@click.option("--components-extra", "extra", default="", hidden=True, help="More of them.")
@click.option(
    "--poll-interval",
    type=age.DURATION,
    hidden=True,
    expose_value=False,
    help="No effect: what is not well is told at once.",
)
@click.option("-o", "--output", "fmt", type=click.Choice(("json", "yaml")), help="Output format.")
@click.option(
    "--name",
    default="",
    help="Check the cluster of the `penstock up` of this name on this machine.",
)
@session.options
@click.pass_context
def check(  # noqa: PLR0913 -- one parameter per option
    context: click.Context,
    /,
    *,
    pre: bool,
    components: str,
    extra: str,
    fmt: str | None,
    name: str,
    **said: Any,
) -> None:
    """Check an installation, or find manifests that would be refused.

    Without a subcommand, it checks the cluster and the installation: exit code 0 means that all
    checks passed, 1 that one did not, 2 that the check failed.

    Before a fleet moves from Flux, `repository` and `cluster` find objects that would be refused,
    and the ReferenceGrants that would allow them. The rules are those of the admission webhooks.
    Exit code 0 means that nothing would be refused, 1 that something would be or that a
    Kustomization cannot be built, 2 that the check failed.
    """
    if context.invoked_subcommand is None:
        connection = _of_up(session.connection(said), name)
        namespace = connection.namespace or rbac.NAMESPACE
        wanted = words((components, extra))
        found = session.run(connection, lambda opened: _looked(opened, namespace, wanted, pre=pre))
        click.echo(_shown(found, fmt or ""), nl=False)
        if not all(row.ok for row in found):
            raise errors.DifferentError("some checks failed")


def _of_up(connection: Connection, name: str) -> Connection:
    """Return the connection to the cluster of a ``penstock up``, if one is named."""
    if not name:
        return connection
    record = state.running(state.directory_of(name))
    if record is None:
        raise errors.FailedError(f"`penstock up --name {name}` has just ended")
    return dataclasses.replace(
        connection,
        kubeconfig=record.kubeconfig,
        namespace=connection.namespace or record.namespace,
    )


async def _looked(
    opened: session.Session, namespace: str, wanted: Sequence[str], *, pre: bool
) -> "list[Finding]":
    found = await inspection.before(opened.api)
    return found if pre else found + await inspection.after(opened.api, namespace, wanted)


def _shown(findings: "Sequence[Finding]", fmt: str) -> str:
    if fmt:
        return output.encode([dataclasses.asdict(row) for row in findings], fmt)
    rows = [
        (row.check, "ok" if row.ok else "failed", f"{row.message}{row.remedy and '; '}{row.remedy}")
        for row in findings
    ]
    return table.render(("CHECK", "RESULT", "MESSAGE"), rows, show_header=True)


def _check_options(function: Function) -> Function:
    for option in (
        click.option(
            "--fix",
            default="",
            metavar="FILE",
            help="Write the missing ReferenceGrants to this new file; - is stdout.",
        ),
        click.option(
            "-o", "--output", "fmt", type=click.Choice(output.FORMATS), help="Output format."
        ),
        click.option(
            "--no-cross-namespace-refs",
            "blocked",
            is_flag=True,
            help="Check for an installation that has this flag set.",
        ),
        click.option(
            "--cross-namespace-refs",
            "mode",
            type=click.Choice(("enforce", "warn")),
            default=ENFORCED,
            show_default=True,
            help="Check for an installation with this value of the flag: warn admits references "
            "that lack a ReferenceGrant.",
        ),
        click.option(
            "--install-namespace",
            default=rbac.NAMESPACE,
            show_default=True,
            help="Namespace of the installation, whose sources are shared.",
        ),
    ):
        function = option(function)
    return function


@click.command(
    "repository",
    epilog=examples.example(
        "penstock check repository . -n apps",
        "penstock check repository https://git.example.com/org/fleet --branch main",
    ),
)
@click.option(
    "-n",
    "--namespace",
    default="",
    help="Namespace of manifests that have none and that no Kustomization applies.",
)
@_check_options
@flags.fetching
@click.argument("address", metavar="DIRECTORY|URL")
def repository(*, address: str, namespace: str, **said: Any) -> None:
    """Check the manifests of a repository: below its root DIRECTORY, or a commit of URL.

    Every Kustomization whose path is in the repository is built, so that objects have the
    namespaces and fields that they would be applied with. No cluster is asked, and nothing is
    decrypted.

    A URL begins with https://, ssh:// or file://, and no git is needed. Without a flag that names
    the commit it is the one that a clone would check out.
    """
    asked = {name: said.pop(name) for name in _ASKED}
    request = Request(fmt=asked.pop("fmt") or "", **asked)
    chosen = session.namespace(namespace, "")
    if not flags.is_url(address):
        flags.require_none(said)
        _finish(_read(Path(address), chosen, address), request)
        return
    with fetching.fetched(address, fetching.Wanted.of(said)) as directory:
        found = _read(directory, chosen, "the manifests")
    _finish(found, request)


_ASKED: Final = ("install_namespace", "blocked", "mode", "fmt", "fix")


@click.command("cluster", epilog=examples.example("penstock check cluster -o json"))
@session.options
@_check_options
def check_cluster(*, fmt: str | None, **arguments: Any) -> None:
    """Check the objects of a cluster, of all namespaces, whether Flux or Penstock is there."""
    connection = session.connection(arguments)
    progress.action("reading the objects of the cluster")
    found = session.run(connection, lambda opened: cluster.read(opened.api))
    if not found.knows_grants:
        progress.action("the cluster has no ReferenceGrants: those of an installation are assumed")
    request = Request(fmt=fmt or "", **arguments)
    _finish(_Read(found.subjects, shipped=not found.knows_grants), request)


@dataclass(frozen=True, slots=True)
class _Read:
    """What is to be checked, and what of a repository could not be built or is not in it.

    ``shipped``: the grants that an installation begins with are assumed. ``warnings`` are about
    files beside the manifests.
    """

    subjects: Sequence[Subject]
    failures: Sequence[str] = ()
    passed_over: Sequence[str] = ()
    shipped: bool = True
    warnings: "Sequence[judge.Finding]" = ()


def _read(directory: Path, namespace: str, name: str) -> _Read:
    progress.action(f"reading {name}")
    if not directory.is_dir():
        raise errors.UsageError(f"{directory} is not a directory")
    with workspace.as_artifacts({"": directory.resolve()}) as kept:
        return _built(kept[""], namespace)


def _built(directory: Path, namespace: str) -> _Read:
    found = files.read(directory)
    _note(
        found.unread,
        "file cannot be read, and is left out",
        "files cannot be read, and are left out",
    )
    if found.others:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found.others.items()))
        progress.failure(
            f"not checked, because Penstock does not reconcile them: {terminal.printable(counts)}"
        )
    progress.action("building the Kustomizations of the repository")
    work = builds.build(directory.resolve(), found.subjects, namespace, _BUILD_SECONDS)
    built = session.run_offline(work)
    _note(
        built.failures,
        "build failed; its manifests are checked as they are written",
        "builds failed; their manifests are checked as they are written",
    )
    partial = [str(each.ref) for each in built.subjects if each.partial]
    _note(
        partial,
        "object has variables without a known value: only its references are checked",
        "objects have variables without a known value: only references are checked",
    )
    _note(
        built.passed_over,
        "Kustomization applies what is not checked here",
        "Kustomizations apply what is not checked here",
    )
    charts = schemas.read(directory, built.subjects)
    elsewhere = [f"{each.ref}: the chart is in another repository" for each in charts.elsewhere]
    _note(
        elsewhere,
        "schema of a chart is not checked for references to other hosts",
        "schemas of charts are not checked for references to other hosts",
    )
    return _Read(
        built.subjects,
        built.failures,
        (*built.passed_over, *elsewhere),
        warnings=charts.findings,
    )


def _note(lines: Sequence[str], one: str, several: str) -> None:
    if lines:
        progress.failure(f"{len(lines)} {one if len(lines) == 1 else several}")
    for line in lines[:_NOTES]:
        click.echo(f"  {terminal.printable(line)}", err=True)
    if len(lines) > _NOTES:
        click.echo(f"  and {len(lines) - _NOTES} more", err=True)


def _finish(read: _Read, request: Request) -> None:
    """Judge, print, and write the grants.

    Raises:
        DifferentError: something would be refused, or could not be built.
    """
    found = read.subjects
    given = _shipped(request.install_namespace) if read.shipped else []
    grants = judge.granted(found, given)
    rules = options.Options(
        no_cross_namespace_refs=request.blocked, cross_namespace_refs=request.mode
    )
    policy = references.under(lambda namespace: grants.get(namespace, ()), rules)
    findings = session.run_offline(judge.judge(policy, found))
    told = report.Report(
        checked=len(found),
        findings=[*findings, *read.warnings],
        grants=judge.remedy(findings),
        failures=read.failures,
        passed_over=read.passed_over,
    )
    if request.fix != "-":
        click.echo(told.render(request.fmt), nl=False)
    if request.fix:
        _write(told.grants, request.fix)
    left = told.ungrantable if request.fix else told.refused
    if left:
        progress.failure(f"{left} of {told.checked} objects would be refused")
        if told.grants and not request.fix:
            progress.action("--fix FILE writes the missing ReferenceGrants to a file for review")
        raise errors.DifferentError(f"{left} objects would be refused")
    if read.failures:
        progress.failure("nothing would be refused, but not all Kustomizations can be built")
        raise errors.DifferentError("not all Kustomizations can be built")
    progress.success(f"none of {told.checked} objects would be refused")


def _shipped(namespace: str) -> list[Json]:
    """Return the grants that an installation begins with."""
    return [
        install.in_namespace(obj, each)
        for each in sorted({namespace, install.SHARED})
        for obj in install.manifests(install.POLICY)
    ]


def _write(grants: Sequence[Json], file: str) -> None:
    if not grants:
        progress.success("no ReferenceGrant is missing")
        return
    text = "---\n".join(output.to_yaml(grant) for grant in grants)
    if file == "-":
        click.echo(text, nl=False)
        return
    try:
        # Refuse to overwrite grants of an earlier check, which does not find their references
        # again.
        with Path(file).open("x") as opened:
            opened.write(text)
    except OSError as exc:
        raise errors.UsageError(f"{file} cannot be written: {exc}; name a new file") from exc
    progress.success(f"{len(grants)} ReferenceGrants are in {file}: review and apply them")


check.add_command(repository)
check.add_command(check_cluster)
