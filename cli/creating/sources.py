"""The flags for sources, one row per kind: ``flux create source git|oci|helm|bucket|chart``."""

from typing import Final

import click

from cli import errors
from cli.creating import flags, keypairs, objects
from cli.creating.flags import Flag, Values
from cli.creating.objects import Credentials, Row
from crds import BUCKET, GIT_REPOSITORY, HELM_CHART, HELM_REPOSITORY, OCI_REPOSITORY
from toolkit.objects import Json

_GIT_REFS: Final = {
    "commit": "commit",
    "ref_name": "name",
    "tag_semver": "semver",
    "tag": "tag",
    "branch": "branch",
}
"""Flags for a revision, the one with precedence first: only that one is written."""
_CLOUDS: Final = ("generic", "aws", "azure", "gcp")
_VERIFY: Final = (
    Flag(
        name="verify-provider",
        at="verify.provider",
        type=click.Choice(("cosign", "notation")),
        help="Provider of the signatures: cosign or notation.",
    ),
    flags.secret_ref(
        "Secret with the keys to trust.", name="verify-secret-ref", at="verify.secretRef"
    ),
    Flag(name="verify-subject", help="Pattern of the signer's OIDC subject."),
    Flag(name="verify-issuer", help="Pattern of the signer's OIDC issuer."),
)


_PROXY: Final = flags.secret_ref(
    "Secret with the address of a proxy.", name="proxy-secret-ref", at="proxySecretRef"
)


def _git(values: Values, spec: Json) -> None:
    keypairs.require_scheme(values["url"])
    chosen = next((key for key in _GIT_REFS if values.get(key)), None)
    if chosen is None:
        raise errors.UsageError(
            "name what to fetch with one of --branch, --tag, --commit, --ref-name, --tag-semver"
        )
    spec["ref"] = {_GIT_REFS[chosen]: values[chosen]}
    if chosen == "commit" and values.get("branch"):
        spec["ref"]["branch"] = values["branch"]


def _git_credentials(values: Values) -> Credentials | None:
    if values.get("secret_ref") or values["provider"] in ("aws", "azure"):
        return None
    over_ssh = keypairs.require_scheme(values["url"]) == "ssh"
    data = keypairs.git(values) if over_ssh or _any(values, "username", "ca_file") else {}
    return Credentials(data=data) if data else None


def _any(values: Values, *keys: str) -> bool:
    return any(values.get(key) for key in keys)


def _layer(text: str) -> Json:
    media, _, operation = text.partition(":")
    if not media or operation not in _OPERATIONS:
        raise errors.UsageError(
            f"--layer-selector: {text!r} must be MEDIA-TYPE:OPERATION, where OPERATION is "
            f"{' or '.join(_OPERATIONS)}"
        )
    return {"mediaType": media, "operation": operation}


_OPERATIONS: Final = ("extract", "copy")


def _oci(values: Values, spec: Json) -> None:
    if not _any(values, "tag", "tag_semver", "digest"):
        raise errors.UsageError("name what to fetch with --tag, --tag-semver or --digest")
    _verified(values, spec)


def _verified(values: Values, spec: Json) -> None:
    if not values.get("verify_provider"):
        if _any(values, "verify_secret_ref", "verify_subject", "verify_issuer"):
            raise errors.UsageError(
                "--verify-secret-ref, --verify-subject and --verify-issuer need --verify-provider"
            )
        return
    if _any(values, "verify_subject", "verify_issuer"):
        identity = {"issuer": values["verify_issuer"], "subject": values["verify_subject"]}
        if not all(identity.values()):
            # An empty pattern would match every signer.
            raise errors.UsageError("--verify-subject and --verify-issuer are needed together")
        flags.put(spec, "verify.matchOIDCIdentity", [identity])


def _helm(values: Values, spec: Json) -> None:
    if values["url"].startswith("oci://"):
        spec["type"] = "oci"


def _helm_credentials(values: Values) -> Credentials | None:
    if values.get("secret_ref"):
        return None
    user, tls = keypairs.basic(values), keypairs.tls(values)
    refs = (*(("secretRef",) if user else ()), *(("certSecretRef",) if tls else ()))
    return Credentials(data={**user, **tls}, fields=refs) if refs else None


def _bucket(values: Values, spec: Json) -> None:
    del values, spec


def _bucket_credentials(values: Values) -> Credentials | None:
    if values.get("secret_ref") or not _any(values, "access_key", "secret_key"):
        return None
    if not (values.get("access_key") and values.get("secret_key")):
        raise errors.UsageError("--access-key and --secret-key are needed together")
    data = {"accesskey": values["access_key"], "secretkey": values["secret_key"]}
    return Credentials(data=data)


def _chart(values: Values, spec: Json) -> None:
    kinds = ("HelmRepository", "GitRepository", "Bucket")
    spec["sourceRef"] = objects.reference(values["source"], kinds, flag="source", local=True)
    _verified(values, spec)


GIT: Final = Row(
    kind=GIT_REPOSITORY,
    example="""penstock create source git podinfo \\
  --url=https://github.com/stefanprodan/podinfo --branch=master --export""",
    flags=(
        Flag(name="url", at="url", required=True, help="Address, such as ssh://git@host/org/repo."),
        flags.INTERVAL,
        Flag(name="branch", help="Branch to follow."),
        Flag(name="tag", help="Tag to fetch."),
        Flag(name="tag-semver", help="Range of tags; the highest is fetched."),
        Flag(name="ref-name", help="Full name of a reference."),
        Flag(name="commit", help="Commit to fetch."),
        flags.secret_ref("Existing Secret with credentials."),
        Flag(
            name="provider",
            type=click.Choice(("generic", "aws", "azure", "github")),
            at="provider",
            help="Cloud that issues the credentials.",
        ),
        _PROXY,
        Flag(
            name="recurse-submodules",
            at="recurseSubmodules",
            type=bool,
            help="Fetch submodules too.",
        ),
        Flag(
            name="sparse-checkout-paths",
            at="sparseCheckout",
            several=True,
            shape=flags.words,
            help="Directories to fetch.",
        ),
        flags.IGNORE_PATHS,
        flags.FETCH_TIMEOUT,
        flags.USERNAME,
        flags.PASSWORD,
        flags.CA_FILE,
        *flags.SSH,
        Flag(name="silent", short="s", type=bool, help="Do not ask whether the key was added."),
    ),
    finish=_git,
    credentials=_git_credentials,
)
OCI: Final = Row(
    kind=OCI_REPOSITORY,
    example="""penstock create source oci podinfo \\
  --url=oci://ghcr.io/stefanprodan/manifests/podinfo --tag=6.1.6 --interval=10m""",
    flags=(
        Flag(name="url", at="url", required=True, help="Address, such as oci://ghcr.io/org/app."),
        flags.INTERVAL,
        Flag(name="tag", at="ref.tag", help="Tag to fetch."),
        Flag(name="tag-semver", at="ref.semver", help="Range of tags; the highest is fetched."),
        Flag(name="digest", at="ref.digest", help="Digest to fetch."),
        Flag(
            name="layer-selector",
            at="layerSelector",
            shape=_layer,
            help="Layer to take, as MEDIA-TYPE:OPERATION; the operation is extract or copy.",
        ),
        flags.secret_ref("Secret of type kubernetes.io/dockerconfigjson."),
        Flag(
            name="service-account",
            at="serviceAccountName",
            help="ServiceAccount with image pull secrets, or a cloud's identity.",
        ),
        flags.secret_ref("Secret with TLS certificates.", name="cert-ref", at="certSecretRef"),
        _PROXY,
        Flag(
            name="provider",
            at="provider",
            type=click.Choice(_CLOUDS),
            default="generic",
            help="Cloud that issues the credentials.",
        ),
        *_VERIFY,
        Flag(name="insecure", at="insecure", type=bool, help="Allow a registry without TLS."),
        flags.IGNORE_PATHS,
        flags.FETCH_TIMEOUT,
    ),
    finish=_oci,
)
HELM: Final = Row(
    kind=HELM_REPOSITORY,
    example="""penstock create source helm podinfo \\
  --url=https://stefanprodan.github.io/podinfo --interval=10m""",
    flags=(
        Flag(name="url", at="url", required=True, help="Address of the index, or oci://HOST/PATH."),
        flags.INTERVAL,
        flags.secret_ref("Existing Secret with credentials."),
        Flag(
            name="oci-provider",
            at="provider",
            type=click.Choice(_CLOUDS),
            help="Cloud that issues the credentials for an oci:// URL.",
        ),
        Flag(
            name="pass-credentials",
            at="passCredentials",
            type=bool,
            help="Send the credentials to other hosts too.",
        ),
        flags.FETCH_TIMEOUT,
        flags.USERNAME,
        flags.PASSWORD,
        flags.CA_FILE,
        flags.CERT_FILE,
        flags.KEY_FILE,
    ),
    finish=_helm,
    secret="helm-{name}",  # noqa: S106 - the pattern of a name
    credentials=_helm_credentials,
)
BUCKET_ROW: Final = Row(
    kind=BUCKET,
    example="""penstock create source bucket podinfo --bucket-name=podinfo \\
  --provider=aws --endpoint=s3.amazonaws.com --region=us-east-1 --interval=10m""",
    flags=(
        Flag(name="bucket-name", at="bucketName", required=True, help="Name of the bucket."),
        Flag(
            name="endpoint",
            at="endpoint",
            required=True,
            help="Host, and optionally port, of the server.",
        ),
        flags.INTERVAL,
        Flag(
            name="provider",
            at="provider",
            type=click.Choice(_CLOUDS),
            default="generic",
            help="Provider of the bucket: generic, aws, gcp or azure.",
        ),
        Flag(name="region", at="region", help="Region of the bucket."),
        Flag(name="insecure", at="insecure", type=bool, help="Allow a server without TLS."),
        flags.secret_ref("Existing Secret with credentials."),
        _PROXY,
        Flag(
            name="sts-provider",
            at="sts.provider",
            type=click.Choice(("aws", "ldap")),
            help="Token service that issues credentials: aws or ldap.",
        ),
        Flag(name="sts-endpoint", at="sts.endpoint", help="Address of the token service."),
        flags.secret_ref(
            "Secret with the login at the token service.", name="sts-secret-ref", at="sts.secretRef"
        ),
        flags.secret_ref(
            "Secret with TLS certificates for the token service.",
            name="sts-cert-secret-ref",
            at="sts.certSecretRef",
        ),
        flags.IGNORE_PATHS,
        flags.FETCH_TIMEOUT,
        Flag(name="access-key", help="Access key, for which a Secret is created."),
        Flag(name="secret-key", help="Secret key, for which a Secret is created."),
    ),
    finish=_bucket,
    secret="bucket-{name}",  # noqa: S106 - the pattern of a name
    credentials=_bucket_credentials,
)
CHART: Final = Row(
    kind=HELM_CHART,
    example="""penstock create source chart podinfo --source=HelmRepository/podinfo \\
  --chart=podinfo --chart-version=6.x""",
    flags=(
        Flag(name="source", required=True, help="KIND/NAME of the source of the chart."),
        Flag(name="chart", at="chart", required=True, help="Name of the chart, or path to it."),
        Flag(
            name="chart-version", at="version", help="Version of the chart, or a range of versions."
        ),
        flags.INTERVAL,
        Flag(
            name="reconcile-strategy",
            at="reconcileStrategy",
            type=click.Choice(("ChartVersion", "Revision")),
            default="ChartVersion",
            help="What causes a new artifact: ChartVersion or Revision.",
        ),
        *_VERIFY,
    ),
    finish=_chart,
)
