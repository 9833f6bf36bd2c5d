"""Readers of documents: YAML, JSON, SOPS, values, reviews and Helm's records."""

from collections.abc import Callable
from typing import Any, Final

from controllers.notification.sending import keyfiles, targets
from crds.conversion import _originals
from tests.fuzz import hostile, languages
from tests.fuzz.reader import Row, each, text, texts
from toolkit.chart import document
from toolkit.decrypt import sops
from toolkit.decrypt.formats import jsonfile, yamlfile
from toolkit.decrypt.kms import logins
from toolkit.errors import PenstockError
from toolkit.kube import config
from toolkit.policy import authorship
from toolkit.release import digest, record, setting
from toolkit.remote.cloud.cache import TokenCache
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.http.http import Http
from webhooks import conversion, review
from webhooks.validation import patches

_KUBECONFIG: Final = """\
apiVersion: v1
current-context: here
contexts: [{name: here, context: {cluster: c, user: u, namespace: team}}]
clusters:
- name: c
  cluster: {server: "https://example.com:6443", certificate-authority-data: Y2E=}
users:
- name: u
  user: {token: "t\\u00e9", client-key-data: |
      a2V5
    }
"""


def _patched(data: bytes) -> object:
    return patches.parsed(text(data))


def _set(data: bytes) -> object:
    values: dict[str, Any] = {"a": [{"b": 1}], "c": {"d": None}}
    setting.put_literal(values, "c.e", text(data))
    setting.put_quoted(values, "a[0].b", text(data))
    setting.require_path(text(data))
    return digest.of_values(values)


def _record(data: bytes) -> object:
    found = record.decode(data)
    return record.snapshot(found), record.tested(found, ())


def _sops(form: sops.Format) -> Callable[[bytes], object]:
    return lambda data: sops.metadata_of(data, form)


_BLOCK: Final = "ENC[AES256_GCM,data:Zm9v,iv:YmFy,tag:YmF6,type:str]"


def _review(data: bytes) -> object:
    return review.decode(data, deadline=0.0)


_REVIEW: Final = """\
{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
"kind": {"group": "", "version": "v1", "kind": "Secret"},
"resource": {"group": "", "version": "v1", "resource": "secrets"}, "name": "s", "namespace": "n",
"operation": "CREATE", "userInfo": {"username": "a", "groups": ["b"], "extra": {"c": ["d"]}},
"object": {"metadata": {"name": "s"}, "data": {"a": "Yg=="}}, "dryRun": false}}"""


_FILES: Final = keyfiles.KeyFiles(Http(), TokenCache())


def _provider(data: bytes) -> object:
    for parse in (
        lambda: targets._headers({"headers": data}),
        lambda: _FILES.reading(text(data), Endpoint(), timeout=1.0),
    ):
        try:
            parse()
        except PenstockError:
            continue
    return None


ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="kubeconfig",
        parse=lambda data: config.from_untrusted_kubeconfig(text(data)),
        samples=texts(_KUBECONFIG),
        worst=hostile.yaml,
        size=8 << 20,
        places=("toolkit/kube/config.py own yaml", "toolkit/untrusted.py json own yaml"),
    ),
    Row(
        name="logins for key services",
        parse=lambda data: logins.from_secret(
            dict.fromkeys(("sops.aws-kms", "sops.azure-kv", "sops.gcp-kms"), data)
        ),
        samples=texts(
            "aws_access_key_id: a\naws_secret_access_key: b\n",
            '{"tenantId": "t", "clientId": "c", "clientSecret": "s\\n"}',
        ),
        worst=hostile.yaml,
        size=64 << 10,
        places=("toolkit/decrypt/kms/logins.py own yaml",),
    ),
    Row(
        name="patch",
        parse=_patched,
        samples=texts("- {op: add, path: /a, value: &a [1]}\n- *a"),
        worst=hostile.yaml,
        size=128 << 10,
        places=("webhooks/validation/patches.py own yaml",),
    ),
    Row(
        name="values",
        parse=document.load_mapping,
        samples=texts("a: &a {b: [1, 0x2, 3e4, yes]}\nc: {<<: *a}\nd: !!binary YQ==\n"),
        refuses=(PenstockError, ValueError),
        worst=hostile.yaml,
        size=5 << 20,
        seconds=15.0,
        memory=768,
        places=(
            "controllers/helm/inputs.py yaml",
            "controllers/source/generating/tree.py yaml",
            "toolkit/chart/document.py own yaml",
        ),
    ),
    Row(
        name="SOPS in YAML",
        parse=each(yamlfile.load, _sops(sops.Format.YAML), refuses=(PenstockError,)),
        samples=texts(f"a: {_BLOCK}\nsops:\n  mac: {_BLOCK}\n  age: [{{recipient: a, enc: b}}]\n"),
        worst=hostile.yaml,
        size=5 << 20,
        places=(
            "toolkit/decrypt/envelope.py own",
            "toolkit/decrypt/formats/yamlfile.py own yaml",
            "toolkit/decrypt/formats/yamltext.py yaml",
        ),
    ),
    Row(
        name="SOPS in JSON",
        parse=each(jsonfile.load, _sops(sops.Format.JSON), refuses=(PenstockError,)),
        samples=texts(f'{{"a": "{_BLOCK}", "b": [1, 2.5e3], "sops": {{"mac": "{_BLOCK}"}}}}'),
        worst=hostile.json,
        size=5 << 20,
        places=("toolkit/decrypt/formats/jsonfile.py json own",),
    ),
    Row(
        name="SOPS in dotenv and INI",
        parse=each(_sops(sops.Format.DOTENV), _sops(sops.Format.INI), refuses=(PenstockError,)),
        shape=languages.LINES,
        samples=texts(
            f"a={_BLOCK}\nsops_mac={_BLOCK}\nsops_age__list_0__map_enc=b\n",
            f"[s]\na = {_BLOCK}\n[sops]\nmac = {_BLOCK}\nage__list_0__map_enc = b\n",
        ),
        worst=hostile.lines,
        size=5 << 20,
        places=("toolkit/decrypt/formats/envfile.py own", "toolkit/decrypt/formats/inifile.py own"),
    ),
    Row(
        name="reviews",
        parse=each(
            _review,
            conversion._decoded,
            refuses=(review.MalformedError, conversion.MalformedReviewError),
        ),
        samples=texts(_REVIEW),
        worst=hostile.json,
        size=7 << 20,
        places=("webhooks/conversion.py json own", "webhooks/review.py json own"),
    ),
    Row(
        name="values of an old version",
        parse=lambda data: _originals(text(data)),
        samples=texts('{"spec.interval": {"was": 1, "is": "1s"}}'),
        worst=hostile.json,
        size=256 << 10,
        places=("crds/conversion.py json",),
    ),
    Row(
        name="author of an automation",
        parse=lambda data: authorship.recorded(
            {"metadata": {"annotations": {authorship.AUTHOR: text(data)}}}
        ),
        samples=texts('{"user": "alice", "groups": ["dev"]}'),
        worst=hostile.json,
        places=("toolkit/policy/authorship.py json",),
    ),
    Row(
        name="headers and key file of a Provider",
        parse=_provider,
        shape=languages.LINES,
        samples=texts("Authorization: Basic YTpi\nX-Team: a\n", '{"client_email": "a"}'),
        worst=hostile.yaml,
        places=(
            "controllers/notification/sending/keyfiles.py json",
            "controllers/notification/sending/targets.py yaml",
        ),
    ),
    Row(
        name="value at a path",
        parse=_set,
        shape=languages.PATH,
        samples=texts("{a,1,null},b.c[2].d=0,e\\.f=true", "hosts[0].name", "'1'", "1e3"),
        refuses=(setting.SettingError,),
        seconds=4.0,
    ),
    Row(
        name="record of a release",
        parse=_record,
        samples=texts(
            '{"name":"a","namespace":"b","version":1,"info":{"status":"deployed",'
            '"first_deployed":"2026-01-02T03:04:05.123456789+02:00","deleted":""},'
            '"chart":{"metadata":{"name":"c","version":"1.0.0"}},"config":{"k":[1.5,"yes"]},'
            '"hooks":[{"name":"t","events":["test"],"last_run":{"phase":"Failed"}}]}'
        ),
        worst=hostile.json,
        size=8 << 20,
        places=(
            "controllers/helm/running/records.py json",
            "toolkit/release/record.py json own time",
        ),
    ),
)
