"""Messages of kustomize, with the file that failed first."""

# ruff: noqa: E501 -- messages as kustomize writes them

import pytest

from toolkit.render import readable

_TRIED = "kustomize build failed: accumulating resources: accumulation err='accumulating resources "
_FAILED = "kustomize build failed: "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            (
                f"{_TRIED}from 'missing.yaml': openat /a/missing.yaml: no such file or directory': "
                "must build at directory: not a valid directory: '/a/missing.yaml' doesn't exist"
            ),
            f"{_FAILED}a/missing.yaml: no such file or directory",
        ),
        (
            (
                f"{_TRIED}from '../a/dir': read /a/dir: not a regular file': couldn't make target for "
                "path '/a/dir': unable to find one of 'kustomization.yaml', 'kustomization.yml' or "
                "'Kustomization' in directory '/a/dir'"
            ),
            (
                f"{_FAILED}a/dir: unable to find one of 'kustomization.yaml', 'kustomization.yml' or "
                "'Kustomization' in directory '/a/dir'"
            ),
        ),
        (
            (
                f"{_TRIED}from 'sub': read /c/sub: not a regular file': recursed accumulation of path "
                "'/c/sub': accumulating resources: accumulating resources from 'bad.yaml': "
                "MalformedYAMLError: yaml: line 1: did not find expected ',' or ']' in File: bad.yaml"
            ),
            (
                f"{_FAILED}c/sub/bad.yaml: MalformedYAMLError: yaml: line 1: did not find expected "
                "',' or ']'"
            ),
        ),
        (
            (
                f"{_FAILED}trouble configuring builtin PatchTransformer: failed to get the patch file "
                "from path(nope.yaml): openat /d/nope.yaml: no such file or directory"
            ),
            f"{_FAILED}d/nope.yaml: no such file or directory",
        ),
        (
            f"{_FAILED}no matches for Id Deployment.v1.apps/web.[noNs]",
            f"{_FAILED}no matches for Id Deployment.v1.apps/web.[noNs]",
        ),
        ("another error: openat /x: y", "another error: openat /x: y"),
        (
            (
                f"{_FAILED}accumulation err='merging resources from './b.yaml': may not add resource "
                "with an already registered id: ConfigMap.v1.[noGrp]/a.x': must build at directory: "
                "'/dup/b.yaml': file is not directory"
            ),
            (
                f"{_FAILED}dup/b.yaml: may not add resource with an already registered id: "
                "ConfigMap.v1.[noGrp]/a.x: remove one of the two, or give it another name or namespace"
            ),
        ),
        (
            'kustomization path not found: no directory "appz" in the source',
            (
                'kustomization path not found: no directory "appz" in the source: correct spec.path, '
                "which begins at the root of the source"
            ),
        ),
        (
            "failed to decode Kubernetes YAML from a/values.yaml: missing Resource metadata",
            (
                "failed to decode Kubernetes YAML from a/values.yaml: missing Resource metadata: every "
                "YAML file below spec.path is applied: list the manifests in a kustomization.yaml, or "
                "exclude the file in .sourceignore"
            ),
        ),
        (
            (
                "failed to decode Kubernetes YAML from a/cm.yaml: MalformedYAMLError: yaml: line 4: "
                "found character that cannot start any token"
            ),
            (
                "failed to decode Kubernetes YAML from a/cm.yaml: MalformedYAMLError: yaml: line 4: "
                "found character that cannot start any token: indent with spaces instead of tabs, "
                "and quote a value that begins with @, ` or %"
            ),
        ),
    ],
)
def test_the_file_that_failed_comes_first(text: str, told: str) -> None:
    assert readable.told(text) == told
