"""ImageRepository and ImagePolicy against a registry: what is asked, kept, chosen and told."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.fakes.granting import allowing, grant
from tests.loopback.automation.conftest import NAME, NAMESPACE, Bench
from toolkit.errors import AccessDeniedError, StalledError, TransientError, WaitingError
from toolkit.policy.references import BlockedError, UngrantedError

GROUP = "image.toolkit.fluxcd.io"


def push(bench: Bench, *tags: str) -> None:
    for tag in tags:
        bench.registry.push(NAME, tag, [tag.encode()])


def let_pass(bench: Bench, **passed: float) -> None:
    """Let the last scan be some time ago."""
    obj = bench.get("ImageRepository")
    then = datetime.now(UTC) - timedelta(**passed)
    result = msgspec.structs.replace(
        obj.status.last_scan_result, scan_time=then.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
    status = msgspec.structs.replace(obj.status, last_scan_result=result)
    bench.cluster.put(msgspec.structs.replace(obj, status=status))


async def test_tags_are_listed_excluded_kept_and_told(bench: Bench) -> None:
    push(bench, "1.0.0", "1.1.0", "sha256-ab.sig")
    bench.image()

    outcome = await bench.run("ImageRepository")

    status = bench.get("ImageRepository").status
    assert status.canonical_image_name == f"{bench.registry.host}/{NAME}"
    assert status.last_scan_result.tag_count == 2
    assert status.last_scan_result.latest_tags == ["1.1.0", "1.0.0"]
    assert status.observed_exclusion_list == [r"^.*\.sig$"]
    checksum = status.last_scan_result.revision
    assert outcome.message == f"successful scan: found 2 tags with checksum {checksum}"
    assert bench.told() == [outcome.message]
    assert outcome.requeue_after == 3600


async def test_nothing_is_asked_before_the_interval_has_passed(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    await bench.run("ImageRepository")
    bench.registry.counts.clear()
    let_pass(bench, minutes=20)

    outcome = await bench.run("ImageRepository")

    assert outcome.quiet
    assert 2390 < (outcome.requeue_after or 0) <= 2400
    assert not bench.registry.counts


async def test_a_restart_scans_nothing_anew_and_chooses_from_what_is_kept(bench: Bench) -> None:
    push(bench, "1.0.0", "1.1.0")
    bench.image()
    bench.policy()
    await bench.run("ImageRepository")
    bench.registry.counts.clear()
    bench.restart()

    assert (await bench.run("ImageRepository")).quiet
    await bench.run("ImagePolicy")

    assert not bench.registry.counts
    assert bench.get("ImagePolicy").status.latest_ref.tag == "1.1.0"


async def test_an_unchanged_list_costs_one_conditional_request(bench: Bench) -> None:
    bench.registry.entity_tags = True
    push(bench, *(f"1.0.{number}" for number in range(899)))
    bench.image()
    await bench.run("ImageRepository")
    let_pass(bench, hours=2)
    bench.restart()
    bench.registry.counts.clear()
    bench.registry.seen.clear()

    outcome = await bench.run("ImageRepository")

    assert bench.registry.counts == {"GET tags": 1}
    assert "If-None-Match" in bench.registry.seen[0].headers
    assert "found 899 tags" in outcome.message
    assert len(bench.told()) == 1
    push(bench, "2.0.0")
    let_pass(bench, hours=2)
    await bench.run("ImageRepository")
    assert bench.get("ImageRepository").status.last_scan_result.latest_tags[0] == "2.0.0"


@pytest.mark.parametrize("count", [100, 1000])
async def test_a_tag_behind_a_page_that_was_full_is_found(bench: Bench, count: int) -> None:
    bench.registry.entity_tags = True
    bench.registry.page = count
    push(bench, "1.0.0")
    digest = bench.registry.tags[NAME].pop("1.0.0")
    bench.registry.tags[NAME] = {f"1.0.{number}": digest for number in range(count)}
    bench.image()
    await bench.run("ImageRepository")
    let_pass(bench, hours=2)
    bench.registry.tags[NAME]["2.0.0"] = digest

    await bench.run("ImageRepository")

    assert bench.get("ImageRepository").status.last_scan_result.latest_tags[0] == "2.0.0"


@pytest.mark.parametrize(
    ("change", "asked", "count"),
    [
        ("nothing", ["n=1000", "n=1000&last=1.0999.0"], 1000),
        ("behind", ["n=1000", "n=1000&last=1.0999.0", "n=1000", "n=1000&last=1.0999.0"], 1001),
        ("before", ["n=1000", "n=1000&last=1.0998.0"], 1001),
        ("removed", ["n=1000"], 999),
        ("replaced", ["n=1000"], 1000),
    ],
)
async def test_a_full_page_costs_two_small_requests_if_nothing_has_changed(
    bench: Bench, change: str, asked: list[str], count: int
) -> None:
    bench.registry.entity_tags = True
    push(bench, "1.0.0")
    tags = bench.registry.tags[NAME]
    digest = tags.pop("1.0.0")
    tags |= {f"1.{number:04}.0": digest for number in range(1000)}
    bench.image()
    await bench.run("ImageRepository")
    let_pass(bench, hours=2)
    bench.restart()
    bench.registry.seen.clear()
    if change in {"removed", "replaced"}:
        del tags["1.0999.0"]
    if change in {"before", "replaced"}:
        tags["0.0.1"] = digest
    if change == "behind":
        tags["2.0.0"] = digest

    await bench.run("ImageRepository")

    assert [each.path.partition("?")[2] for each in bench.registry.seen] == asked
    assert bench.get("ImageRepository").status.last_scan_result.tag_count == count


@pytest.mark.parametrize("fault", ["order", "last", "refused"])
async def test_a_registry_that_cannot_say_what_follows_is_listed_in_whole(
    bench: Bench, fault: str
) -> None:
    bench.registry.entity_tags = True
    bench.registry.page = 50
    bench.registry.faults.listing = fault
    push(bench, "1.0.0")
    digest = bench.registry.tags[NAME].pop("1.0.0")
    names = ["1.0.01", "1.0.00", *(f"1.0.{number:02}" for number in range(2, 50))]
    bench.registry.tags[NAME] = dict.fromkeys(names, digest)
    bench.image()
    await bench.run("ImageRepository")
    let_pass(bench, hours=2)
    bench.registry.tags[NAME]["0.5.0" if fault == "order" else "2.0.0"] = digest

    await bench.run("ImageRepository")

    assert bench.get("ImageRepository").status.last_scan_result.tag_count == 51


@pytest.mark.parametrize("change", [{"exclusionList": ["^1"]}, {"image": "other"}])
async def test_another_spec_scans_at_once(bench: Bench, change: dict[str, object]) -> None:
    push(bench, "1.0.0", "2.0.0")
    bench.registry.push("org/other", "7.0.0", [b"7"])
    bench.image()
    await bench.run("ImageRepository")
    if "image" in change:
        change = {"image": f"{bench.registry.host}/org/other"}
    bench.image(**change)

    await bench.run("ImageRepository")

    assert bench.get("ImageRepository").status.last_scan_result.tag_count == 1


async def test_a_list_of_many_pages_with_a_pattern_on_which_others_backtrack(
    bench: Bench,
) -> None:
    push(bench, "x")
    digest = bench.registry.tags[NAME].pop("x")
    tags = {f"{'a' * 20}b{number:05}": digest for number in range(50_000)}
    bench.registry.tags[NAME] = tags
    bench.image(exclusionList=[f"^({'a?' * 20}){'a' * 20}$", "^(a+)+$"])
    bench.policy(policy={"alphabetical": {}}, filterTags={"pattern": "^(a|a?)+b(?P<n>[0-9]+)$"})

    await bench.run("ImageRepository")
    await bench.run("ImagePolicy")

    assert bench.get("ImageRepository").status.last_scan_result.tag_count == 50_000
    assert bench.get("ImagePolicy").status.latest_ref.tag.endswith("b49999")


async def test_a_list_without_end_is_refused(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.registry.faults.endless = "tags"
    bench.image()

    with pytest.raises(TransientError, match=r"scan failed: .* more than") as refused:
        await bench.run("ImageRepository")

    assert refused.value.reason == "ReadOperationFailed"


async def test_what_was_tampered_with_in_the_store_is_scanned_again(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    await bench.run("ImageRepository")
    (stored,) = bench.root.glob("data/imagerepository/team/app/tags-*.json")
    write(stored, json.dumps({"tags": ["9.9.9"], "known": ""}))
    bench.restart()
    bench.registry.counts.clear()

    await bench.run("ImageRepository")

    assert bench.registry.counts == {"GET tags": 1}
    assert bench.get("ImageRepository").status.last_scan_result.latest_tags == ["1.0.0"]


def write(path: Path, text: str) -> None:
    path.chmod(0o600)
    path.write_text(text)


@pytest.mark.parametrize("image", ["https://ghcr.io/a", "ghcr.io/a:v1", "ghcr.io/A"])
async def test_what_is_no_image_stalls(bench: Bench, image: str) -> None:
    bench.image(image=image)

    with pytest.raises(StalledError, match=r"spec\.image") as refused:
        await bench.run("ImageRepository")

    assert refused.value.reason == "ImageURLInvalid"


async def test_a_refused_login_is_told_as_such(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.registry.faults.statuses.append(("tags", 401, {}))
    bench.image()

    with pytest.raises(TransientError) as refused:
        await bench.run("ImageRepository")

    assert refused.value.reason == "AuthenticationFailed"


async def test_a_policy_waits_for_tags(bench: Bench) -> None:
    bench.policy()
    with pytest.raises(WaitingError, match="not found"):
        await bench.run("ImagePolicy")
    bench.image()

    with pytest.raises(WaitingError, match="has no tags") as waits:
        await bench.run("ImagePolicy")

    assert waits.value.reason == "DependencyNotReady"


async def test_a_choice_is_told_with_the_one_before(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    bench.policy()
    await bench.run("ImageRepository")
    await bench.run("ImagePolicy")
    push(bench, "1.1.0")
    await bench.run("ImageRepository", "requested")

    outcome = await bench.run("ImagePolicy")

    image = f"{bench.registry.host}/{NAME}"
    assert outcome.message == (
        f"Latest image tag for {image} resolved to 1.1.0 (previously {image}:1.0.0)"
    )
    status = bench.get("ImagePolicy").status
    assert (status.latest_ref.tag, status.observed_previous_ref.tag) == ("1.1.0", "1.0.0")
    assert (await bench.run("ImagePolicy")).quiet


@pytest.mark.parametrize(("reflection", "asks"), [("IfNotPresent", 0), ("Always", 1), ("Never", 0)])
async def test_digests_are_reflected(bench: Bench, reflection: str, asks: int) -> None:
    push(bench, "1.0.0")
    bench.image()
    always = {"interval": "10m"} if reflection == "Always" else {}
    bench.policy(digestReflectionPolicy=reflection, **always)
    await bench.run("ImageRepository")
    first = await bench.run("ImagePolicy")
    before = bench.registry.tags[NAME]["1.0.0"]
    moved = bench.registry.push(NAME, "1.0.0", [b"other"])["digest"]
    bench.registry.counts.clear()

    await bench.run("ImagePolicy")

    latest = bench.get("ImagePolicy").status.latest_ref
    assert latest.digest == {"IfNotPresent": before, "Always": moved, "Never": ""}[reflection]
    assert bench.registry.counts["HEAD manifests"] == asks
    assert (first.requeue_after == 600) == (reflection == "Always")


async def test_a_digest_that_cannot_be_read_is_told(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    bench.policy(digestReflectionPolicy="IfNotPresent")
    await bench.run("ImageRepository")
    bench.registry.faults.statuses.append(("manifests", 500, {}))

    with pytest.raises(TransientError, match="failed fetching digest") as refused:
        await bench.run("ImagePolicy")

    assert refused.value.reason == "ReadOperationFailed"


async def test_a_registry_that_lies_about_a_digest_is_not_believed(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    bench.policy(digestReflectionPolicy="IfNotPresent")
    await bench.run("ImageRepository")
    bench.registry.faults.digest_header = "sha256:none"

    await bench.run("ImagePolicy")

    latest = bench.get("ImagePolicy").status.latest_ref
    assert latest.digest == bench.registry.tags[NAME]["1.0.0"]


async def test_a_repository_of_another_namespace_must_allow_it(bench: Bench) -> None:
    push(bench, "1.0.0")
    elsewhere = {"imageRepositoryRef": {"name": "app", "namespace": "other"}}
    bench.policy(**elsewhere)
    with pytest.raises(UngrantedError) as missing:
        await bench.run("ImagePolicy")
    bench.image()
    await bench.run("ImageRepository")
    await move_repository(bench, "other")

    with pytest.raises(UngrantedError) as there:
        await bench.run("ImagePolicy")

    assert str(there.value) == str(missing.value)  # nobody learns whether it exists
    share(bench, {"matchLabels": {"team": "red"}})
    with pytest.raises(AccessDeniedError):
        await bench.run("ImagePolicy")
    bench.labels[NAMESPACE] = {"team": "red"}
    await bench.run("ImagePolicy")
    assert bench.get("ImagePolicy").status.latest_ref.tag == "1.0.0"


async def test_a_grant_allows_it_too_and_lockdown_nothing(bench: Bench) -> None:
    push(bench, "1.0.0")
    bench.image()
    await bench.run("ImageRepository")
    await move_repository(bench, "other")
    bench.policy(imageRepositoryRef={"name": "app", "namespace": "other"})
    given = grant(
        "other",
        of={"group": GROUP, "kind": "ImagePolicy", "namespace": NAMESPACE},
        to={"group": GROUP, "kind": "ImageRepository"},
    )
    bench.references = allowing(given)
    bench.restart()
    await bench.run("ImagePolicy")

    share(bench, {})
    bench.references = allowing(given, cross_namespace=False)
    bench.restart()
    with pytest.raises(BlockedError):
        await bench.run("ImagePolicy")


async def move_repository(bench: Bench, namespace: str) -> None:
    """Have the scanned repository in another namespace, with its tags."""
    obj = bench.get("ImageRepository")
    metadata = msgspec.structs.replace(obj.metadata, namespace=namespace)
    moved = msgspec.structs.replace(obj, metadata=metadata)
    found = await bench.lists.read(obj)
    await bench.lists.write(moved, found)
    bench.cluster.put(moved)


def share(bench: Bench, selector: dict[str, object]) -> None:
    obj = bench.cluster.objects["ImageRepository", "other", "app"]
    body = msgspec.to_builtins(obj) | {}
    body["spec"]["accessFrom"] = {"namespaceSelectors": [selector]}
    bench.cluster.put(msgspec.convert(body, type(obj)))
