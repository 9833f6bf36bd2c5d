"""Specs that are right, by kind, and for each rule one that is wrong: what it finds there.

A case is a kind, what to put into the right spec, the rule, the field, and words of the message.
"""

from typing import Any, Final

from tests.fakes import imagespecs, notificationspecs, releasespecs

Json = dict[str, Any]

RIGHT: Final[dict[str, Json]] = {
    "GitRepository": {"url": "https://git.example.com/org/app.git", "interval": "5m"},
    "OCIRepository": {"url": "oci://registry.example.com/org/app", "interval": "5m"},
    "Bucket": {"endpoint": "minio.example.com:9000", "bucketName": "apps", "interval": "5m"},
    "HelmRepository": {"url": "https://charts.example.com/stable", "interval": "5m"},
    "HelmChart": {
        "chart": "podinfo",
        "sourceRef": {"kind": "HelmRepository", "name": "charts"},
        "interval": "5m",
    },
    "ExternalArtifact": {},
    "ArtifactGenerator": {
        "sources": [{"alias": "git", "kind": "GitRepository", "name": "apps"}],
        "artifacts": [{"name": "app", "copy": [{"from": "@git/app/**", "to": "@artifact/"}]}],
    },
    "Kustomization": {
        "interval": "10m",
        "prune": True,
        "sourceRef": {"kind": "GitRepository", "name": "apps"},
    },
    "HelmRelease": releasespecs.RIGHT,
    **imagespecs.RIGHT,
    **notificationspecs.RIGHT,
    "ReferenceGrant": {
        "from": [
            {
                "group": "kustomize.toolkit.fluxcd.io",
                "kind": "Kustomization",
                "namespace": "tenant",
            }
        ],
        "to": [{"group": "source.toolkit.fluxcd.io", "kind": "GitRepository"}],
    },
    "SourcePolicy": {
        "sources": [{"kind": "GitRepository", "urls": ["https://git.example.com/**"]}]
    },
    "ProvenancePolicy": {"origins": [{"revision": "main@sha1:.*"}]},
    "ImageVerificationPolicy": {
        "images": ["ghcr.io/acme/**"],
        "verifiers": [{"name": "a", "cosign": {"secretRef": {"name": "keys"}}}],
    },
}

_SECRET: Final = {"secretRef": {"name": "keys"}}
_PIPELINE: Final = {
    "issuer": "^https://token\\.actions\\.githubusercontent\\.com$",
    "subject": "^https://github\\.com/org/.*$",
}
_GITHUB: Final = {"provider": "cosign", "matchOIDCIdentity": [_PIPELINE]}
_COPY: Final = {"from": "@git/app/**", "to": "@artifact/"}

ALSO_RIGHT: Final[tuple[tuple[str, Json], ...]] = (
    *releasespecs.ALSO_RIGHT,
    *imagespecs.ALSO_RIGHT,
    *notificationspecs.ALSO_RIGHT,
    ("GitRepository", {"url": "ssh://git@example.com:2222/org/app", **_SECRET}),
    ("GitRepository", {"url": "https://[::1]:8443/x", "ref": {"semver": ">=1.2 <2 || 3.x"}}),
    ("GitRepository", {"ref": {"name": "refs/pull/1/head"}}),
    ("GitRepository", {"ref": {"commit": "a" * 40, "branch": "main"}}),
    ("GitRepository", {"ref": {"tag": "v1"}, "verify": {"mode": "TagAndHEAD", **_SECRET}}),
    ("GitRepository", {"sparseCheckout": ["apps", "./infra/"], "timeout": "90s"}),
    ("GitRepository", {"include": [{"repository": {"name": "base"}, "toPath": "a/../b"}]}),
    ("GitRepository", {"ignore": "# all but deploy\n/*\n!/deploy\n*.[ch]\n"}),
    ("GitRepository", {"provider": "azure", "serviceAccountName": "git"}),
    ("OCIRepository", {"ref": {"semver": "*", "semverFilter": ".*-rc.*"}}),
    ("OCIRepository", {"ref": {"digest": "sha256:" + "a" * 64}, "verify": {**_SECRET}}),
    ("OCIRepository", {"verify": _GITHUB}),
    ("OCIRepository", {"insecure": True}),
    ("Bucket", {"endpoint": "http://minio:9000", "insecure": True}),
    ("Bucket", {"provider": "aws", "region": "eu-central-1"}),
    ("Bucket", {"sts": {"provider": "ldap", "endpoint": "https://minio", **_SECRET}}),
    ("HelmRepository", {"url": "oci://registry.example.com/charts/", "type": "oci"}),
    ("HelmRepository", {"url": "oci://r.example.com", "type": "oci", "provider": "aws"}),
    ("HelmChart", {"version": "6.x", "valuesFiles": ["values-prod.yaml"]}),
    (
        "HelmChart",
        {"chart": "./charts/app/", "sourceRef": {"kind": "Bucket", "name": "b"}, "version": "*"},
    ),
    ("ExternalArtifact", {"sourceRef": {"kind": "X", "name": "maker", "namespace": "a"}}),
    ("ArtifactGenerator", {"commonMetadata": {"labels": {"example.com/a": "b"}}}),
    ("Kustomization", {"path": "./apps/prod", "timeout": "2m", "retryInterval": "1m"}),
    ("Kustomization", {"path": "/apps", "targetNamespace": "${ns}"}),
    (
        "Kustomization",
        {
            "wait": True,
            "healthCheckExprs": [
                {"apiVersion": "a/v1", "kind": "B", "current": "status.phase == 'Up'"}
            ],
        },
    ),
    (
        "Kustomization",
        {
            "dependsOn": [
                {"name": "self", "kind": "HelmRelease"},
                {"name": "x", "readyExpr": "dep.status.x == self.spec.path"},
                {"name": "self", "namespace": "other"},
            ]
        },
    ),
    (
        "Kustomization",
        {
            "patches": [
                {"patch": "kind: X\n---\nkind: Y\n"},
                {
                    "patch": '[{"op": "remove", "path": "/a"}]',
                    "target": {"kind": "Deployment|StatefulSet", "labelSelector": "a=b,!c"},
                },
            ],
            "images": [{"name": "app", "newTag": "${tag}"}, {"name": "x", "newName": "y"}],
            "components": ["../base"],
            "postBuild": {"substitute": {"_a1": "b"}},
            "commonMetadata": {"annotations": {"example.com/team": "we & they"}},
            "ignore": [{"paths": ["/spec/replicas"], "target": {"name": "web-.*"}}],
            "decryption": {"provider": "sops", "secretRef": {"name": "age"}},
        },
    ),
    ("SourcePolicy", {"namespaceSelector": {"matchLabels": {"policy.penstock.dev/tier": "a"}}}),
    ("SourcePolicy", {"sources": [{"kind": "GitRepository", "urls": ["git+*://x/**"]}]}),
)

Case = tuple[str, Json, str, str, str]

REFUSED: Final[tuple[Case, ...]] = (
    *releasespecs.REFUSED,
    *imagespecs.REFUSED,
    *notificationspecs.REFUSED,
    ("GitRepository", {"url": "https:///app"}, "git-url", "spec.url", "name a host"),
    ("GitRepository", {"url": "https://a:99999/x"}, "git-url", "spec.url", "invalid repository"),
    (
        "GitRepository",
        {"ref": {"branch": "a b"}},
        "git-reference",
        "spec.ref.branch",
        "'a b': Git allows no such name",
    ),
    (
        "GitRepository",
        {"ref": {"commit": "abc123"}},
        "git-reference",
        "spec.ref.commit",
        "'abc123' is not a full commit id",
    ),
    (
        "GitRepository",
        {"ref": {"semver": "latest"}},
        "semver-range",
        "spec.ref.semver",
        "'latest' is not a range of versions",
    ),
    (
        "GitRepository",
        {"sparseCheckout": ["a", "../b"]},
        "sparse-path",
        "spec.sparseCheckout[1]",
        "not in the repository",
    ),
    (
        "GitRepository",
        {"include": [{"repository": {"name": "x"}, "toPath": "a/../../b"}]},
        "include-path",
        "spec.include[0].toPath",
        "points outside",
    ),
    (
        "GitRepository",
        {"ref": {"branch": "main"}, "verify": {"mode": "Tag", **_SECRET}},
        "verify-tag",
        "spec.verify.mode",
        "'Tag': spec.ref names no tag",
    ),
    (
        "GitRepository",
        {"url": "ssh://git@example.com/x"},
        "git-login",
        "spec.secretRef",
        "known_hosts is needed",
    ),
    ("GitRepository", {"provider": "github"}, "git-login", "spec.secretRef", "GitHub App"),
    (
        "GitRepository",
        {"include": [{"repository": {"name": f"a-{number}"}} for number in range(257)]},
        "include-many",
        "spec.include",
        "257, which is more than 256",
    ),
    ("GitRepository", {"ignore": "a\n[b"}, "ignore-rules", "spec.ignore", "line 2"),
    ("GitRepository", {"timeout": "0s"}, "timeout-zero", "spec.timeout", "in no time"),
    (
        "GitRepository",
        {"interval": "9999999h"},
        "duration-range",
        "spec.interval",
        "292 years",
    ),
    (
        "GitRepository",
        {"secretRef": {"name": "My_Keys"}},
        "object-name",
        "spec.secretRef.name",
        "'My_Keys': no object can have this name",
    ),
    (
        "GitRepository",
        {"include": [{"repository": {"name": ""}}]},
        "object-name",
        "spec.include[0].repository.name",
        "the name is empty",
    ),
    ("OCIRepository", {"url": "oci://Example.com/App"}, "oci-url", "spec.url", "lower case"),
    ("OCIRepository", {"url": "oci://u:pw@a.example/x"}, "oci-url", "spec.url", "user information"),
    ("OCIRepository", {"ref": {"tag": "a b"}}, "oci-reference", "spec.ref.tag", "cannot be a tag"),
    (
        "OCIRepository",
        {"ref": {"digest": "abc"}},
        "oci-reference",
        "spec.ref.digest",
        "'abc': it is not a digest",
    ),
    ("OCIRepository", {"ref": {"semver": ">="}}, "semver-range", "spec.ref.semver", "not a range"),
    (
        "OCIRepository",
        {"ref": {"semver": "*", "semverFilter": "(?=x)"}},
        "semver-filter",
        "spec.ref.semverFilter",
        "invalid perl operator",
    ),
    (
        "OCIRepository",
        {"insecure": True, "provider": "aws"},
        "insecure-provider",
        "spec.insecure",
        "credentials of 'aws'",
    ),
    (
        "OCIRepository",
        {"verify": {"provider": "cosign"}},
        "verify-nobody",
        "spec.verify",
        "a signature of anybody would do",
    ),
    (
        "OCIRepository",
        {"verify": {"provider": "notation"}},
        "verify-nobody",
        "spec.verify.secretRef",
        "trust policy",
    ),
    (
        "OCIRepository",
        {"verify": {"matchOIDCIdentity": [_PIPELINE, {"issuer": "^x$", "subject": "^(x$"}]}},
        "verify-identity",
        "spec.verify.matchOIDCIdentity[1]",
        "'^(x$' is not a regular expression",
    ),
    (
        "Bucket",
        {"endpoint": "minio/x?y=z"},
        "bucket-endpoint",
        "spec.endpoint",
        "neither user information nor a query",
    ),
    (
        "Bucket",
        {"endpoint": "http://minio"},
        "bucket-endpoint",
        "spec.endpoint",
        "plain HTTP",
    ),
    ("Bucket", {"bucketName": "a b"}, "bucket-name", "spec.bucketName", "is not a bucket's name"),
    ("Bucket", {"region": "eu central"}, "bucket-name", "spec.region", "'eu central'"),
    (
        "Bucket",
        {"sts": {"provider": "ldap", "endpoint": "https://minio"}},
        "sts-login",
        "spec.sts.secretRef",
        "sign in at the directory",
    ),
    (
        "HelmRepository",
        {"url": "oci://registry.example.com/x"},
        "helm-type",
        "spec.type",
        "'default': an oci:// URL needs the type oci",
    ),
    ("HelmRepository", {"url": "https:///x"}, "helm-url", "spec.url", "names no host"),
    (
        "HelmRepository",
        {"url": "oci://r.example.com/x", "type": "oci", "provider": "gcp", "insecure": True},
        "insecure-provider",
        "spec.insecure",
        "credentials of 'gcp'",
    ),
    ("HelmChart", {"version": "newest"}, "semver-range", "spec.version", "'newest' is not a range"),
    ("HelmChart", {"chart": "../x"}, "chart-path", "spec.chart", "'../x': it points outside"),
    ("HelmChart", {"valuesFiles": ["a", "b/../../c"]}, "values-path", "spec.valuesFiles[1]", "out"),
    (
        "ExternalArtifact",
        {"sourceRef": {"kind": "X", "name": "maker", "namespace": "A.b"}},
        "namespace-name",
        "spec.sourceRef.namespace",
        "'A.b': no namespace can have this name",
    ),
    (
        "ArtifactGenerator",
        {"artifacts": [{"name": "app", "copy": [_COPY, {**_COPY, "from": "@no/x"}]}]},
        "artifact-composition",
        "spec.artifacts[0].copy[1].from",
        "no source with the alias 'no'",
    ),
    (
        "ArtifactGenerator",
        {"commonMetadata": {"labels": {"a": "b c"}}},
        "common-metadata",
        "spec.commonMetadata.labels[a]",
        "'b c': it is not a value of a label",
    ),
    (
        "Kustomization",
        {"targetNamespace": "My_Apps"},
        "target-namespace",
        "spec.targetNamespace",
        "'My_Apps'",
    ),
    (
        "Kustomization",
        {"dependsOn": [{"name": f"app-{number}"} for number in range(1001)]},
        "depends-on-many",
        "spec.dependsOn",
        "1001, which is more than 1000",
    ),
    (
        "Kustomization",
        {
            "postBuild": {
                "substituteFrom": [
                    {"kind": "ConfigMap", "name": f"vars-{number}"} for number in range(257)
                ]
            }
        },
        "substitute-from-many",
        "spec.postBuild.substituteFrom",
        "257, which is more than 256",
    ),
    (
        "Kustomization",
        {"dependsOn": [{"name": "x"}, {"name": "self"}]},
        "depends-on-itself",
        "spec.dependsOn[1]",
        "this object itself",
    ),
    (
        "Kustomization",
        {"wait": True, "healthCheckExprs": [{"apiVersion": "v1", "current": "has(", "failed": ""}]},
        "cel-expression",
        "spec.healthCheckExprs[0].current",
        "'has('",
    ),
    (
        "Kustomization",
        {"dependsOn": [{"name": "x", "readyExpr": "nothing()"}]},
        "cel-expression",
        "spec.dependsOn[0].readyExpr",
        "undeclared reference to 'nothing'",
    ),
    (
        "Kustomization",
        {"patches": [{"patch": "a: ["}]},
        "patch-text",
        "spec.patches[0].patch",
        "YA",
    ),
    (
        "Kustomization",
        {"patches": [{"patch": "# no"}]},
        "patch-text",
        "spec.patches[0].patch",
        "emp",
    ),
    (
        "Kustomization",
        {"patches": [{"patch": "- op: remove\n  path: /x"}]},
        "patch-text",
        "spec.patches[0].patch",
        "does not say which objects",
    ),
    (
        "Kustomization",
        {"patches": [{"patch": "a: b", "target": {"name": "web-("}}]},
        "patch-target",
        "spec.patches[0].target.name",
        "web-(",
    ),
    (
        "Kustomization",
        {"patches": [{"patch": "a: b", "target": {"labelSelector": "a in b"}}]},
        "patch-target",
        "spec.patches[0].target.labelSelector",
        "malformed selector",
    ),
    (
        "Kustomization",
        {"components": ["https://github.com/org/repo"]},
        "component-path",
        "spec.components[0]",
        "not a relative path",
    ),
    (
        "Kustomization",
        {"postBuild": {"substitute": {"my-name": "x"}}},
        "variable-name",
        "spec.postBuild.substitute",
        "'my-name': no variable",
    ),
    (
        "Kustomization",
        {"commonMetadata": {"annotations": {"a b": "x"}}},
        "common-metadata",
        "spec.commonMetadata.annotations",
        "'a b': it is not a key",
    ),
    (
        "Kustomization",
        {"ignore": [{"paths": ["/spec/x", "spec.replicas"]}]},
        "ignore-pointer",
        "spec.ignore[0].paths[1]",
        "not a JSON pointer",
    ),
    (
        "Kustomization",
        {"ignore": [{"paths": ["/spec"], "target": {"name": "x["}}]},
        "ignore-pointer",
        "spec.ignore[0].target",
        "malformed pattern",
    ),
    (
        "Kustomization",
        {"ignore": [{"paths": ["/spec/replicas"]}] * 101},
        "ignore-count",
        "spec.ignore",
        "there are 101 rules of fields to ignore, more than 100",
    ),
    (
        "Kustomization",
        {"ignore": [{"paths": ["/spec/replicas"], "target": {"name": "(a?){500}"}}] * 5},
        "ignore-count",
        "spec.ignore",
        "compile to more than 8192 instructions",
    ),
    (
        "Kustomization",
        {"ignore": [{"paths": ["/spec/replicas"] * 1001}]},
        "ignore-count",
        "spec.ignore",
        "there are 1001 paths of fields to ignore, more than 1000",
    ),
    (
        "Kustomization",
        {"wait": True, "healthCheckExprs": [{"apiVersion": "v1", "current": "true"}] * 257},
        "cel-many",
        "spec.healthCheckExprs",
        "there are 257 expressions",
    ),
    (
        "Kustomization",
        {
            "wait": True,
            "healthCheckExprs": [{"apiVersion": "v1", "current": "true"}]
            + [{"apiVersion": "v1", "current": "'" + "x" * 4000 + "' == ''"}] * 17,
        },
        "cel-many",
        "spec.healthCheckExprs",
        "18 expressions with 68140 characters together",
    ),
    (
        "SourcePolicy",
        {
            "sources": [
                {
                    "kind": "OCIRepository",
                    "urls": ["oci://r.example/**"],
                    "verify": {"cosign": {"identities": [{"issuer": "(", "subject": "x"}]}},
                }
            ]
        },
        "regular-expression",
        "spec.sources[0].verify.cosign.identities[0].issuer",
        "missing )",
    ),
    (
        "SourcePolicy",
        {"namespaceSelector": {"matchExpressions": [{"key": "a b", "operator": "Exists"}]}},
        "label-selector",
        "spec.namespaceSelector.matchExpressions[0].key",
        "'a b'",
    ),
    (
        "ProvenancePolicy",
        {"origins": [{"revision": "["}]},
        "regular-expression",
        "spec.origins[0].revision",
        "missing ]",
    ),
    (
        "ImageVerificationPolicy",
        {"verifiers": [{"name": "a", "cosign": {"secretRef": {"name": "A"}}}]},
        "object-name",
        "spec.verifiers[0].cosign.secretRef.name",
        "'A'",
    ),
)

_PATCH_6902: Final = {"patch": [{"op": "remove", "path": "/a"}], "target": {"kind": "X"}}

WARNED: Final[tuple[Case, ...]] = (
    *releasespecs.WARNED,
    *imagespecs.WARNED,
    *notificationspecs.WARNED,
    (
        "GitRepository",
        {"url": "https://me:s3cret@git.example.com/x"},
        "url-password",
        "spec.url",
        "it contains a password",
    ),
    (
        "GitRepository",
        {"url": "http://git.example.com/x", **_SECRET},
        "credentials-in-clear",
        "spec.url",
        "sent in the clear",
    ),
    (
        "GitRepository",
        {"ref": {"tag": "v1", "branch": "main"}},
        "reference-unused",
        "spec.ref.branch",
        "no effect beside spec.ref.tag",
    ),
    (
        "GitRepository",
        {"url": "ssh://git@a.example/x", **_SECRET, "proxySecretRef": {"name": "p"}},
        "proxy-unused",
        "spec.proxySecretRef",
        "over SSH",
    ),
    ("GitRepository", {"interval": "5s"}, "interval-short", "spec.interval", "'5s': less than 10"),
    ("GitRepository", {"interval": "0.001ms"}, "interval-short", "spec.interval", "counts as 1 s"),
    ("GitRepository", {"interval": "0s"}, "interval-short", "spec.interval", "counts as 1 s"),
    ("GitRepository", {"timeout": "1ms"}, "timeout-short", "spec.timeout", "counts as 100 ms"),
    (
        "Kustomization",
        {"retryInterval": "0.001ms"},
        "interval-short",
        "spec.retryInterval",
        "counts as 1 s",
    ),
    (
        "GitRepository",
        {"interval": "30s", "timeout": "2m"},
        "timeout-over-interval",
        "spec.timeout",
        "longer than spec.interval",
    ),
    (
        "OCIRepository",
        {"ref": {"tag": "a", "semverFilter": "b"}},
        "reference-unused",
        "spec.ref.semverFilter",
        "without spec.ref.semver",
    ),
    (
        "OCIRepository",
        {"insecure": True, **_SECRET},
        "credentials-in-clear",
        "spec.insecure",
        "in the clear",
    ),
    (
        "OCIRepository",
        {"layerSelector": {"operation": "copy"}, "ignore": "*.md"},
        "field-unused",
        "spec.ignore",
        "operation 'copy'",
    ),
    (
        "OCIRepository",
        {"verify": {"matchOIDCIdentity": [{**_PIPELINE, "subject": "github.com/org"}]}},
        "verify-unanchored",
        "spec.verify.matchOIDCIdentity[0].subject",
        "matches within longer texts",
    ),
    (
        "OCIRepository",
        {"verify": {**_GITHUB, **_SECRET}},
        "verify-unused",
        "spec.verify.matchOIDCIdentity",
        "no effect with keys",
    ),
    (
        "Bucket",
        {"sts": {"provider": "ldap", "endpoint": "https://m", **_SECRET}, **_SECRET},
        "field-unused",
        "spec.sts",
        "beside spec.secretRef",
    ),
    (
        "HelmRepository",
        {"passCredentials": True, **_SECRET},
        "credentials-passed",
        "spec.passCredentials",
        "change the index",
    ),
    ("HelmRepository", {"insecure": True}, "field-unused", "spec.insecure", "without type oci"),
    (
        "HelmRepository",
        {"insecure": True, **_SECRET},
        "field-unused",
        "spec.insecure",
        "without type oci",
    ),
    (
        "HelmRepository",
        {"url": "http://charts.example.com/stable", **_SECRET},
        "credentials-in-clear",
        "spec.url",
        "in the clear",
    ),
    (
        "HelmRepository",
        {"url": "oci://r.example.com/x", "type": "oci", "insecure": True, **_SECRET},
        "credentials-in-clear",
        "spec.insecure",
        "in the clear",
    ),
    (
        "HelmChart",
        {"sourceRef": {"kind": "Bucket", "name": "b"}, "verify": {**_SECRET}},
        "field-unused",
        "spec.verify",
        "no effect with a Bucket: verify the source itself",
    ),
    (
        "ArtifactGenerator",
        {"pathPattern": "@git/{dir}/**"},
        "path-pattern-idle",
        "spec.pathPattern",
        "'**' is not a wildcard here",
    ),
    (
        "HelmChart",
        {"reconcileStrategy": "Revision"},
        "field-unused",
        "spec.reconcileStrategy",
        "with a HelmRepository",
    ),
    ("Kustomization", {"path": "../x"}, "path-above-root", "spec.path", "'../x': it points above"),
    (
        "Kustomization",
        {"dependsOn": [{"name": "x"}, {"name": "x"}]},
        "depends-on-twice",
        "spec.dependsOn[1]",
        "'x': it occurs twice",
    ),
    (
        "Kustomization",
        {"images": [{"name": "x", "newTag": "a b"}]},
        "image-name",
        "spec.images[0].newTag",
        "'a b': no registry",
    ),
    (
        "Kustomization",
        {"healthCheckExprs": [{"apiVersion": "v1", "current": "true"}]},
        "field-unused",
        "spec.healthCheckExprs",
        "without spec.wait",
    ),
    ("Kustomization", {"timeout": "10s"}, "timeout-short", "spec.timeout", "counts as 30 s"),
    (
        "Kustomization",
        {"prune": False, "deletionPolicy": "Delete"},
        "deletes-all",
        "spec.deletionPolicy",
        "'Delete': objects that spec.prune=false keeps",
    ),
    (
        "Kustomization",
        {"decryption": {"provider": "sops"}},
        "decryption-keys",
        "spec.decryption",
        "names no keys",
    ),
    (
        "Kustomization",
        {"patchesJson6902": [_PATCH_6902]},
        "deprecated-patches",
        "spec.patchesJson6902",
        "deprecated",
    ),
    (
        "Kustomization",
        {"validation": "client"},
        "deprecated-validation",
        "spec.validation",
        "has no effect",
    ),
    (
        "ReferenceGrant",
        {"to": [{"group": "", "kind": "Secret"}]},
        "grant-without-use",
        "spec.to[0].group",
        "nothing refers to objects of this group",
    ),
    (
        "SourcePolicy",
        {"namespaceSelector": {"matchLabels": {"tenant": "a"}}},
        "free-label",
        "spec.namespaceSelector",
        "any user who may label a namespace can exempt it from the policy by 'tenant'",
    ),
    (
        "ImageVerificationPolicy",
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        "free-label",
        "spec.namespaceSelector",
        "can exempt it from the policy by 'team'",
    ),
    (
        "SourcePolicy",
        {"sources": [{"kind": "GitRepository", "urls": ["https://Git.example.com:443/x/"]}]},
        "url-pattern",
        "spec.sources[0].urls[0]",
        "in the form of 'https://git.example.com/x'",
    ),
    (
        "SourcePolicy",
        {
            "sources": [
                {
                    "kind": "OCIRepository",
                    "urls": ["oci://registry.example/**"],
                    "verify": {"notation": {"identities": ["CN=release"]}},
                }
            ]
        },
        "certificate-names",
        "spec.sources[0].verify.notation.identities",
        "an authority of their own",
    ),
    (
        "ProvenancePolicy",
        {"origins": [{"source": {"urls": ["https://a.example/../b"]}}]},
        "url-pattern",
        "spec.origins[0].source.urls[0]",
        "no URL matches it",
    ),
    (
        "ProvenancePolicy",
        {"operators": [{"namespace": "team-a", "serviceAccountName": "operator"}]},
        "operator-account",
        "spec.operators[0]",
        "in namespace 'team-a' (as with the role 'edit') can write as this account",
    ),
)
