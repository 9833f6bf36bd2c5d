"""Specs of the kinds of images: right ones, and for each rule one that is wrong."""

from typing import Any, Final

Json = dict[str, Any]

_GIT: Final = {"commit": {"author": {"name": "bot", "email": "bot@example.com"}}}

RIGHT: Final[dict[str, Json]] = {
    "ImageRepository": {"image": "ghcr.io/org/app", "interval": "5m"},
    "ImagePolicy": {
        "imageRepositoryRef": {"name": "app"},
        "policy": {"semver": {"range": ">=1.0.0"}},
    },
    "ImageUpdateAutomation": {
        "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        "git": _GIT,
        "interval": "30m",
    },
}


def _proposing(service: str, push: Json, **ref: str) -> Json:
    """Return an automation with pull requests; ``annotations`` goes to the metadata."""
    checkout = {"checkout": {"ref": ref}} if ref else {}
    return {
        "annotations": {"image.penstock.dev/pull-request": service},
        "git": {**_GIT, **checkout, "push": push},
    }


ALSO_RIGHT: Final[tuple[tuple[str, Json], ...]] = (
    ("ImageRepository", {"image": "nginx", "exclusionList": ["^dev-", "-rc$"]}),
    ("ImageRepository", {"image": "registry.example.com:5000/a/b", "insecure": True}),
    ("ImageRepository", {"accessFrom": {"namespaceSelectors": [{"matchLabels": {"a": "b"}}]}}),
    ("ImagePolicy", {"policy": {"alphabetical": {}}}),
    (
        "ImagePolicy",
        {
            "policy": {"numerical": {"order": "asc"}},
            "filterTags": {"pattern": "^main-(?P<sha>[a-f0-9]+)-(?P<ts>[0-9]+)", "extract": "$ts"},
        },
    ),
    ("ImagePolicy", {"filterTags": {"pattern": "^v(.*)$", "extract": "${1}$$"}}),
    ("ImageUpdateAutomation", {"update": {"path": "./apps", "strategy": "Setters"}}),
    ("ImageUpdateAutomation", {"git": {**_GIT, "checkout": {"ref": {"branch": "main"}}}}),
    (
        "ImageUpdateAutomation",
        {"git": {**_GIT, "checkout": {"ref": {"tag": "v1"}}, "push": {"branch": "updates"}}},
    ),
    (
        "ImageUpdateAutomation",
        {
            "git": {
                **_GIT,
                "push": {"refspec": "refs/heads/main:refs/for/main", "options": {"a": ""}},
            }
        },
    ),
    ("ImageUpdateAutomation", _proposing("gitlab", {"branch": "images"}, branch="main")),
    ("ImageUpdateAutomation", _proposing("gitea", {"branch": "images"})),
    ("ImagePolicy", {"annotations": {"policy.penstock.dev/verify": "release, scanned"}}),
)


def _pushing(**push: Any) -> Json:
    return {"git": {**_GIT, "push": push}}


REFUSED: Final = (
    ("ImageRepository", {"image": "https://ghcr.io/a"}, "image-name", "spec.image", "a scheme"),
    ("ImageRepository", {"image": "ghcr.io/a:v1"}, "image-name", "spec.image", "a tag or a digest"),
    ("ImageRepository", {"image": "ghcr.io/A"}, "image-name", "spec.image", "cannot be read"),
    ("ImageRepository", {"image": ""}, "image-name", "spec.image", "it is empty"),
    (
        "ImageRepository",
        {"exclusionList": ["ok", "(?=x)"]},
        "regular-expression",
        "spec.exclusionList[1]",
        "not a regular expression",
    ),
    (
        "ImageRepository",
        {"accessFrom": {"namespaceSelectors": [{"matchLabels": {"a": "b c"}}]}},
        "label-selector",
        "spec.accessFrom.namespaceSelectors[0].matchLabels[a]",
        "not a value of a label",
    ),
    ("ImagePolicy", {"policy": {}}, "image-policy-choice", "spec.policy", "neither semver"),
    (
        "ImagePolicy",
        {"policy": {"semver": {"range": "newest"}}},
        "semver-range",
        "spec.policy.semver.range",
        "not a range",
    ),
    (
        "ImagePolicy",
        {"filterTags": {"pattern": "(a"}},
        "tag-filter",
        "spec.filterTags.pattern",
        "not a regular expression",
    ),
    ("ImageUpdateAutomation", {"git": None}, "automation-git", "spec.git", "author of commits"),
    (
        "ImageUpdateAutomation",
        {"git": {"commit": {"author": {"name": "a <b", "email": "a@b"}}}},
        "commit-author",
        "spec.git.commit.author.name",
        "cannot hold it",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(branch="a..b"),
        "git-reference",
        "spec.git.push.branch",
        "'a..b': Git allows no such name",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(refspec=":refs/heads/main"),
        "push-refspec",
        "spec.git.push.refspec",
        "it would delete a reference",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(refspec="main:refs/heads/x"),
        "push-refspec",
        "spec.git.push.refspec",
        "'main' is not the full name of a reference, such as 'refs/heads/main'",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(refspec="refs/heads/a..b:refs/heads/x"),
        "push-refspec",
        "spec.git.push.refspec",
        "'refs/heads/a..b' is not a name that Git allows",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(branch="images", refspec="refs/heads/main:refs/for/main"),
        "push-refspec",
        "spec.git.push.refspec",
        "it pushes 'refs/heads/main', but commits are made on 'refs/heads/images'",
    ),
    (
        "ImageUpdateAutomation",
        {"git": {**_GIT, "checkout": {"ref": {"tag": "v1"}}}},
        "push-branch",
        "spec.git.push.branch",
        "spec.git.checkout.ref.tag is not a branch",
    ),
    (
        "ImageUpdateAutomation",
        _pushing(branch="x", options={"a": "b\nc"}),
        "push-options",
        "spec.git.push.options",
        "one line",
    ),
    (
        "ImagePolicy",
        {"annotations": {"policy.penstock.dev/verify": "release,,scanned"}},
        "verify-annotation",
        "metadata.annotations[policy.penstock.dev/verify]",
        "'' is not a name of an ImageVerificationPolicy",
    ),
    (
        "ImageUpdateAutomation",
        _proposing("bitbucket", {"branch": "images"}),
        "pull-request-service",
        "metadata.annotations[image.penstock.dev/pull-request]",
        "'bitbucket': it does not name a hosting service",
    ),
    (
        "ImageUpdateAutomation",
        _proposing("github", {}),
        "pull-request-branch",
        "spec.git.push.branch",
        "it is missing",
    ),
    (
        "ImageUpdateAutomation",
        _proposing("github", {"branch": "main"}, branch="main"),
        "pull-request-branch",
        "spec.git.push.branch",
        "the branch that is checked out",
    ),
    (
        "ImageUpdateAutomation",
        _proposing("github", {"branch": "main"}, name="refs/heads/main"),
        "pull-request-branch",
        "spec.git.push.branch",
        "the branch that is checked out",
    ),
    (
        "ImageUpdateAutomation",
        _proposing("github", {"branch": "images"}, tag="v1"),
        "pull-request-branch",
        "spec.git.push.branch",
        "spec.git.checkout.ref.tag is not a branch to merge into",
    ),
    (
        "ImageUpdateAutomation",
        {"update": {"path": "../x"}},
        "update-path",
        "spec.update.path",
        "points outside",
    ),
)

WARNED: Final = (
    (
        "ImageRepository",
        {"provider": "aws", "secretRef": {"name": "keys"}},
        "field-unused",
        "spec.provider",
        "no effect beside spec.secretRef",
    ),
    (
        "ImagePolicy",
        {"policy": {"semver": {"range": "1.x"}, "numerical": {}}},
        "image-policy-unused",
        "spec.policy.numerical",
        "no effect beside spec.policy.semver",
    ),
    (
        "ImagePolicy",
        {"filterTags": {"pattern": "^v", "extract": "$version"}},
        "tag-extract",
        "spec.filterTags.extract",
        "no group 'version'",
    ),
)
