"""Readers of short texts: names, ranges, selectors, URLs, addresses, times and durations."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, Final

import msgspec

from apiserver import ages
from apiserver.artifacts import hosts, observed, shown
from controllers.helm.running import awaiting
from controllers.image import imagerepository
from controllers.notification.events.event import Event, InvolvedObject
from controllers.notification.services.git import azuredevops, bitbucketserver, commit
from controllers.notification.services.paging import sentry
from controllers.notification.services.service import Target
from controllers.notification.services.streams import nats
from controllers.source import proofs
from crds import EXTERNAL_ARTIFACT
from crds.helm import HelmRelease
from crds.image import ImageRepository
from crds.meta import Artifact, parse_duration
from tests.fuzz import hostile, languages
from tests.fuzz.evidence import _pems
from tests.fuzz.reader import Row, each, text, texts
from toolkit import inventory, objects, times
from toolkit.apply import clock
from toolkit.apply.selector import Selector
from toolkit.artifact import belonging, ranges
from toolkit.artifact.fetch import Fetcher
from toolkit.artifact.store import Owner
from toolkit.chart import repository as charts
from toolkit.chart import version
from toolkit.decrypt.kms import logins
from toolkit.errors import PenstockError
from toolkit.kube import config, remote
from toolkit.notification import demands
from toolkit.policy import claims, imagereference, urls
from toolkit.release import record
from toolkit.remote import addresses, dialling, semver
from toolkit.remote.cloud import awskeys, services
from toolkit.remote.endpoint import Endpoint
from toolkit.remote.git.refspec import Refspec
from toolkit.remote.git.url import GitUrl
from toolkit.remote.http import patience, rules
from toolkit.remote.objectstore import credentials, dialect, place, xml
from toolkit.remote.oci import oci, tokens
from toolkit.remote.proxy import Proxy
from toolkit.verify import sshkeys
from webhooks.validation import fetching

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_REFUSES: Final = (PenstockError, ValueError)
"""Errors of readers whose callers turn a ``ValueError`` into a message."""


def _event(stamp: str) -> Event:
    about = InvolvedObject(kind="a", namespace="b", name="c")
    return Event(
        involved_object=about,
        severity="info",
        timestamp=stamp,
        message="",
        reason="",
        reporting_controller="",
    )


def _timed(data: bytes) -> object:
    """Read a time as each place does, of which none lets an error through."""
    stamp = text(data)
    metadata = {proofs.FRESH: stamp}
    artifact = Artifact(
        digest="sha256:a", last_update_time="", path="", revision="", url="", metadata=metadata
    )
    scanned = msgspec.convert(
        {
            "metadata": {"namespace": "a", "name": "b"},
            "spec": {"image": "a/b", "interval": "1m"},
            "status": {"lastScanResult": {"scanTime": stamp, "tagCount": 1, "latestTags": []}},
        },
        ImageRepository,
    )
    return (
        ages.age(stamp, 0.0),
        clock._seconds(stamp),
        dialect._date(stamp),
        dialect.moment(stamp),
        _event(stamp).moment.timestamp() + 3e8,
        imagerepository._left(scanned),
        observed._time(stamp),
        patience.retry_after(stamp),
        proofs.left(artifact, _NOW),
        ranges._date(stamp),
        shown.moment(stamp),
        times.moment(stamp),
    )


def _resumed(data: bytes) -> object:
    snapshot = {
        **dict.fromkeys(("digest", "name", "namespace", "status", "chartName"), "a"),
        **dict.fromkeys(("chartVersion", "configDigest", "firstDeployed"), "1.0.0"),
        "version": 1,
        "lastDeployed": text(data),
        "action": "install",
    }
    release = msgspec.convert(
        {
            "metadata": {"namespace": "a", "name": "b"},
            "spec": {"interval": "1m", "chartRef": {"kind": "HelmChart", "name": "c"}},
            "status": {"history": [snapshot], "lastAttemptedReleaseAction": "install"},
        },
        HelmRelease,
    )
    return awaiting.resumed(release, ["Released"])


def _expiring(data: bytes) -> object:
    keys = "<a><b><Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey>"
    stamp = text(data).replace("&", "").replace("<", "")
    return credentials._keys(
        f"{keys}<Expiration>{stamp}</Expiration></Credentials></b></a>".encode()
    )


_time = each(
    _timed,
    _resumed,
    lambda data: services.moment(text(data), purpose="a test"),
    refuses=(PenstockError,),
)
_strict_time = each(
    _expiring,
    lambda data: sshkeys._time("expiry-time", text(data)),
    lambda data: record._seconds(text(data)),
    refuses=(*_REFUSES, xml.XmlError),
)


def _both(*parsers: Callable[[bytes], object]) -> Callable[[bytes], object]:
    return lambda data: [parse(data) for parse in parsers]


_OWNER: Final = Owner(kind=EXTERNAL_ARTIFACT.kind, namespace="a", name="b")
_BUCKET: Final = {"endpoint": "https://a", "bucket": "b"}


def _target(data: bytes) -> Target:
    return Target(type="generic", namespace="a", name="b", address=text(data))


def _artifact(data: bytes) -> Artifact:
    return Artifact(digest="sha256:a", last_update_time="", path="", revision="", url=text(data))


def _fetched(data: bytes) -> object:
    """Look at the URL of an artifact as those do that fetch it."""
    artifact = _artifact(data)
    belonging.require_own(artifact, _OWNER)
    # Of the fetcher, the URL depends on this field alone.
    return Fetcher._url(SimpleNamespace(_host_override=None), artifact)  # type: ignore[arg-type]


def _chart_of(data: bytes) -> object:
    found = charts.chart_url("https://example.com/charts", text(data))
    return charts.urlsplit(found), charts._origin(charts.urlsplit(found))


def _followed(data: bytes) -> object:
    hop = rules.Hop(url=rules.parsed("https://example.com/a"), endpoint=Endpoint())
    return rules.follow(hop, text(data))


def _cluster(*, server: str = "https://a", proxy: str | None = None) -> object:
    # Without a CA, those of the system would take longer to load than all that is tried here.
    return remote._opened(config.ClusterConfig(server=server, proxy=proxy, ca=_pems()[0]))


_SERVICES: Final[Any] = SimpleNamespace(variable=lambda *_: "")
_url = each(
    _both(
        lambda data: hosts._host(text(data)),
        lambda data: observed._url(text(data)),
        lambda data: fetching.host(text(data)),
        lambda data: logins.origin(text(data)),
        lambda data: rules.shown(text(data)),
        lambda data: [demands.unusable(text(data), kind) for kind in ("slack", "nats", "sentry")],
        lambda data: demands.login(text(data), "generic"),
        lambda data: addresses.literal(text(data)),
        lambda data: addresses.names_metadata(text(data)),
        lambda data: dialling.literal_within(text(data), dialling.Reach.PUBLIC),
        lambda data: _target(data).host,
    ),
    _fetched,
    _chart_of,
    _followed,
    lambda data: charts.index_url(text(data)),
    lambda data: charts.normalized(text(data)),
    lambda data: _cluster(server=text(data)),
    lambda data: _cluster(proxy=text(data)),
    lambda data: place.split(text(data), default="https"),
    lambda data: Proxy(address=text(data)).endpoint,
    lambda data: rules.parsed(text(data)),
    lambda data: GitUrl.parse(text(data)),
    lambda data: GitUrl.parse("https://example.com/a.git").join(text(data)),
    lambda data: oci.Repository.parse(text(data)),
    lambda data: tokens._require_realm(text(data), "https://example.com"),
    lambda data: awskeys.AwsKeys(services=_SERVICES)._sts(text(data), "eu-west-1"),
    lambda data: azuredevops.place(_target(data)),
    lambda data: bitbucketserver.place(_target(data)),
    lambda data: commit.repository(_target(data)),
    lambda data: nats.place(text(data)),
    lambda data: sentry.endpoint(text(data)),
    refuses=(PenstockError,),
)
_canonical = each(lambda data: urls.canonical(text(data)), refuses=(urls.UnclearURLError,))


def _named(data: bytes) -> object:
    given = text(data)
    group, _, kind = given.partition(" ")
    return (
        objects.GroupVersionKind.parse(group, kind),
        claims.parse({claims.impersonation.PREFIX + name: [given] for name in _CLAIMS}),
    )


_CLAIMS: Final = tuple(claims.impersonation.CLAIMS)
_name = each(
    _named,
    lambda data: GitUrl.parse(text(data)),
    lambda data: imagereference.parse(text(data)),
    lambda data: inventory.Entry.parse(text(data), "v1"),
    lambda data: semver.Version.parse(text(data)),
    lambda data: semver.highest(["1.2.3", "v2.0.0-rc.1"], semver.Range.parse(text(data))),
    lambda data: version.parse(text(data)),
    lambda data: version.constraint(text(data)),
    lambda data: Selector(label_selector=text(data), name=text(data)).check(),
    refuses=_REFUSES,
)

ROWS: Final[tuple[Row, ...]] = (
    Row(
        name="URL",
        parse=_both(_url, _canonical),
        shape=languages.URL,
        samples=texts(
            "https://user@example.com:8443/a/b.git?c=d#e",
            "oci://example.com/a/b",
            "nats://a:4222",
            "http://[::1]:80/a",
            "../b.git",
        ),
        worst=lambda _: hostile.urls(),
        bombs=False,
        seconds=4.0,
        memory=768,
        places=(
            "apiserver/artifacts/blobs.py url",
            "apiserver/artifacts/columns.py url",
            "apiserver/artifacts/held.py url",
            "apiserver/artifacts/hosts.py url",
            "apiserver/artifacts/observed.py url",
            "apiserver/artifacts/surveying.py url",
            "controllers/notification/services/paging/sentry.py url",
            "controllers/notification/services/service.py url",
            "controllers/notification/services/streams/nats.py url",
            "toolkit/artifact/fetch.py url",
            "toolkit/chart/repository.py archive url",
            "toolkit/decrypt/kms/logins.py url",
            "toolkit/kube/remote.py url",
            "toolkit/policy/urls.py address",
            "toolkit/remote/cloud/aws.py url",
            "toolkit/remote/cloud/awskeys.py url",
            "toolkit/remote/cloud/gcp.py url",
            "toolkit/remote/git/http.py url",
            "toolkit/remote/git/url.py own url",
            "toolkit/remote/http/http.py url",
            "toolkit/remote/http/rules.py own url",
            "toolkit/remote/objectstore/place.py url",
            "toolkit/remote/oci/tokens.py own url",
            "toolkit/remote/proxy.py own url",
            "webhooks/validation/fetching.py url",
        ),
    ),
    Row(
        name="address of a host",
        parse=_both(
            lambda data: addresses.literal(text(data)),
            lambda data: addresses.names_metadata(text(data)),
        ),
        shape=languages.ADDRESS,
        samples=texts("169.254.169.254", "0xa9fea9fe", "[::ffff:1.2.3.4]", "metadata.google"),
        worst=lambda _: hostile.urls(),
        places=("toolkit/remote/addresses.py address own url",),
    ),
    Row(
        name="time",
        parse=_both(_time, _strict_time),
        shape=languages.TIME,
        samples=texts("2026-11-27T05:00:00Z", "Mon, 30 Nov 2026 00:00:00 GMT", "20261127"),
        worst=lambda _: hostile.times(),
        places=(
            "apiserver/ages.py time",
            "apiserver/artifacts/observed.py time",
            "apiserver/artifacts/shown.py time",
            "controllers/helm/running/awaiting.py time",
            "controllers/image/imagerepository.py time",
            "controllers/notification/events/event.py time",
            "controllers/source/proofs.py time",
            "toolkit/artifact/ranges.py time",
            "toolkit/remote/cloud/services.py time",
            "toolkit/remote/http/patience.py time",
            "toolkit/remote/objectstore/credentials.py time",
            "toolkit/remote/objectstore/dialect.py time",
            "toolkit/times.py time",
        ),
    ),
    Row(
        name="duration",
        parse=lambda data: parse_duration(text(data)),
        shape=languages.DURATION,
        samples=texts("1h30m", "1.5s", "0"),
        worst=lambda size: (b"1" * size + b"s", *(each * size for each in (b"1s", b".", b"1."))),
        refuses=(ValueError,),
        places=("crds/meta.py own",),
    ),
    Row(
        name="names, ranges and selectors",
        parse=_name,
        shape=languages.NAME,
        samples=texts(
            "ssh://git@example.com:22/a/b.git",
            "example.com:5000/a/b:c@sha256:" + "0" * 64,
            ">=1.2.3-0 <2 || ~1.x, ^0.1",
            "app in (a, b),tier!=c,!d",
            "a_b_apps_Deployment",
        ),
        worst=lambda size: (*hostile.urls(), *hostile.lists(size)),
        size=64 << 10,
        places=(
            "toolkit/chart/version.py own",
            "toolkit/inventory.py own",
            "toolkit/objects.py own",
            "toolkit/policy/claims.py own",
            "toolkit/policy/imagereference.py address own",
            "toolkit/remote/semver.py own",
        ),
    ),
    Row(
        name="refspec",
        parse=lambda data: Refspec.parse(text(data)),
        shape=languages.REFSPEC,
        samples=texts("+refs/heads/main:refs/for/main", "refs/heads/a"),
        worst=hostile.lists,
        size=64 << 10,
        refuses=(ValueError,),
        places=("toolkit/remote/git/refs.py git", "toolkit/remote/git/refspec.py own"),
    ),
)
