"""ImageUpdateAutomation against a Git server: what is changed, pushed, cached and refused."""

import asyncio
from typing import Any

import asyncssh
import pytest

from tests.fakes.granting import SOURCE, allowing, grant
from tests.loopback.automation.conftest import NAMESPACE, Bench
from toolkit.errors import PenstockError, StalledError, TransientError, WaitingError
from toolkit.policy.references import UngrantedError
from toolkit.remote.git.errors import GitAuthError, GitError

AUTOMATION = "ImageUpdateAutomation"
MARKER = f'# {{"$imagepolicy": "{NAMESPACE}:app"}}'


def file(tag: str) -> str:
    return f"kind: X\nimage: ghcr.io/org/web:{tag} {MARKER}\n"


def at(bench: Bench, ref: str = "main") -> str:
    return bench.fleet.content("apps/web.yaml", ref)


def git(**more: Any) -> dict[str, Any]:
    return {"commit": {"author": {"name": "bot", "email": "bot@example.com"}}, **more}


@pytest.fixture(autouse=True)
def _fleet(bench: Bench) -> None:
    bench.fleet.commit({"apps/web.yaml": file("1.0.0"), "README": "hello"})
    bench.chosen("1.1.0")
    bench.automation()


async def test_a_choice_becomes_a_commit(bench: Bench) -> None:
    outcome = await bench.run(AUTOMATION)

    tip = bench.fleet.revision("main")
    status = bench.get(AUTOMATION).status
    assert at(bench) == file("1.1.0")
    assert status.last_push_commit == tip
    assert status.observed_source_revision == f"main@sha1:{tip}"
    assert status.observed_policies["app"].tag == "1.1.0"
    assert outcome.message == "repository up-to-date"
    assert bench.told() == [
        f"pushed commit '{tip[:7]}' to branch 'main'\nUpdate from image update automation"
    ]


async def test_markers_without_effect_are_named_until_they_are_corrected(bench: Bench) -> None:
    typo, tag = MARKER.replace(":app", ":typo"), MARKER.replace(":app", ":app:tag")
    bench.fleet.commit({"apps/tag.yaml": f"kind: X\ntag: {tag}\nimage: web:1 {typo}\n"})
    await bench.run(AUTOMATION)
    named = ignored(bench)
    told = bench.told()
    bench.fleet.commit({"apps/tag.yaml": f'kind: X\ntag: "" {tag}\n'})

    await bench.run(AUTOMATION)

    assert f"'{NAMESPACE}:typo'" in named
    assert "apps/tag.yaml:2: the marker is not beside a value" in named
    assert named in told
    assert not ignored(bench)


def ignored(bench: Bench) -> str:
    given = bench.get(AUTOMATION).status.conditions
    return next((each.message for each in given if each.type == "MarkersIgnored"), "")


async def test_nothing_new_costs_one_look_at_the_reference(bench: Bench) -> None:
    await bench.run(AUTOMATION)
    bench.requests()

    outcome = await bench.run(AUTOMATION)

    assert outcome.quiet
    assert bench.requests() == ["GET /info/refs?service=git-upload-pack", "POST /git-upload-pack"]


async def test_another_choice_of_the_same_commit_fetches_nothing(bench: Bench) -> None:
    bench.chosen("1.0.0")  # what is there already
    await bench.run(AUTOMATION)
    bench.requests()
    bench.chosen("2.0.0")

    await bench.run(AUTOMATION)

    asked = bench.requests()
    assert at(bench) == file("2.0.0")
    assert asked.count("POST /git-upload-pack") == 1  # the reference
    assert asked.count("POST /git-receive-pack") == 1


async def test_a_commit_of_somebody_else_is_kept(bench: Bench) -> None:
    raced: list[str] = []

    def race(body: bytes) -> bytes:
        if b"PACK" in body and not raced:
            raced.append(bench.fleet.commit({"apps/web.yaml": f"# theirs\n{file('1.0.0')}"}))
        return body

    bench.git.faults.rewrite = race
    await bench.run(AUTOMATION)

    assert bench.fleet.revision("main^") == raced[0]
    assert at(bench) == f"# theirs\n{file('1.1.0')}"


async def test_a_branch_that_never_rests_is_tried_again_later(bench: Bench) -> None:
    raced: list[str] = []

    def race(body: bytes) -> bytes:
        if b"PACK" in body:
            raced.append(bench.fleet.commit({"README": str(len(raced))}))
        return body

    bench.git.faults.rewrite = race
    with pytest.raises(GitError, match="got other commits each of 5 times"):
        await bench.run(AUTOMATION)

    assert len(raced) == 5


async def test_two_automations_share_a_branch(bench: Bench) -> None:
    other = file("1.0.0").replace(":app", ":api")
    bench.fleet.commit({"api/api.yaml": other})
    bench.chosen("3.0.0", name="api")
    bench.automation(name="one", update={"path": "./apps"})
    bench.automation(name="two", update={"path": "./api"})

    await asyncio.gather(bench.run(AUTOMATION, name="one"), bench.run(AUTOMATION, name="two"))

    assert at(bench) == file("1.1.0")
    assert bench.fleet.content("api/api.yaml") == other.replace("1.0.0", "3.0.0")


async def test_a_branch_of_its_own_follows_what_is_checked_out(bench: Bench) -> None:
    bench.automation(git=git(push={"branch": "updates"}))
    await bench.run(AUTOMATION)
    first = bench.fleet.revision("updates")
    assert at(bench, "updates") == file("1.1.0")
    assert at(bench) == file("1.0.0")
    assert (await bench.run(AUTOMATION)).quiet

    moved = bench.fleet.commit({"README": "again"})
    await bench.run(AUTOMATION)

    assert bench.fleet.revision("updates^") == moved
    bench.fleet.commit({"junk": "1"}, branch="updates")
    await bench.run(AUTOMATION)
    assert bench.fleet.revision("updates^") == moved
    assert bench.fleet.revision("updates") != first
    bench.fleet.git("branch", "-D", "updates")
    await bench.run(AUTOMATION)
    assert at(bench, "updates") == file("1.1.0")


def share(bench: Bench, *names: str) -> None:
    """Write an automation for each directory, all of which push to one branch of their own."""
    for name in names:
        bench.fleet.commit({f"{name}/x.yaml": file("1.0.0").replace(":app", f":{name}")})
        bench.chosen("1.1.0", name=name)
        bench.automation(name=name, update={"path": name}, git=git(push={"branch": "updates"}))


def on_updates(bench: Bench) -> list[str]:
    """Return which tag each directory has on the branch."""
    text = bench.fleet.git("grep", "-h", "image:", "updates", "--", "*/x.yaml").decode()
    return [line.partition(" #")[0].rpartition(":")[2] for line in text.splitlines()]


async def test_automations_that_push_to_one_branch_keep_the_changes_of_each_other(
    bench: Bench,
) -> None:
    share(bench, "one", "two")

    await bench.run(AUTOMATION, name="one")
    await bench.run(AUTOMATION, name="two")

    assert on_updates(bench) == ["1.1.0", "1.1.0"]
    tip = bench.fleet.revision("updates")
    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)
    assert bench.fleet.revision("updates") == tip  # none begins anew because of the other
    bench.chosen("1.2.0", name="one")
    await bench.run(AUTOMATION, name="one")
    assert on_updates(bench) == ["1.2.0", "1.1.0"]


async def test_automations_that_race_for_one_branch_lose_nothing(bench: Bench) -> None:
    share(bench, "one", "two")

    await asyncio.gather(*(bench.run(AUTOMATION, name=name) for name in ("one", "two")))

    assert on_updates(bench) == ["1.1.0", "1.1.0"]


async def test_a_branch_of_several_follows_what_is_checked_out(bench: Bench) -> None:
    share(bench, "one", "two")
    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)
    moved = bench.fleet.commit({"README": "again"})

    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)

    assert on_updates(bench) == ["1.1.0", "1.1.0"]
    assert bench.fleet.revision("updates~2") == moved


async def test_a_restart_keeps_a_branch_of_several(bench: Bench) -> None:
    share(bench, "one", "two")
    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)
    bench.restart()
    bench.chosen("1.2.0", name="one")

    await bench.run(AUTOMATION, name="one")

    assert on_updates(bench) == ["1.2.0", "1.1.0"]


async def test_a_branch_of_several_that_a_stranger_changed_is_made_anew(bench: Bench) -> None:
    share(bench, "one", "two")
    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)
    bench.fleet.commit({"junk": "1"}, branch="updates")

    for name in ("one", "two"):
        await bench.run(AUTOMATION, name=name)

    assert on_updates(bench) == ["1.1.0", "1.1.0"]
    assert bench.fleet.revision("updates~2") == bench.fleet.revision("main")


async def test_a_force_pushed_branch_is_started_from_anew(bench: Bench) -> None:
    await bench.run(AUTOMATION)
    bench.fleet.git("update-ref", "-d", "refs/heads/main")
    fresh = bench.fleet.commit({"apps/web.yaml": file("0.1.0")})

    await bench.run(AUTOMATION)

    assert bench.fleet.revision("main^") == fresh
    assert at(bench) == file("1.1.0")


async def test_a_refspec_and_options_reach_the_server(bench: Bench) -> None:
    bench.fleet.git("config", "receive.advertisePushOptions", "true")
    bench.fleet.accept_pushes(hook='echo "$GIT_PUSH_OPTION_0" > options')
    push = {"refspec": "refs/heads/main:refs/for/main", "options": {"topic": "images"}}
    bench.automation(git=git(push=push))

    await bench.run(AUTOMATION)

    assert at(bench, "refs/for/main") == file("1.1.0")
    assert at(bench) == file("1.0.0")
    assert await asyncio.to_thread((bench.fleet.path / "options").read_text) == "topic=images\n"
    assert "refspec 'refs/heads/main:refs/for/main'" in bench.told()[0]


async def test_a_protected_branch_is_told_with_its_own_words(bench: Bench) -> None:
    bench.fleet.accept_pushes(hook="echo 'main is protected, open a pull request' >&2; exit 1")

    with pytest.raises(GitError, match="main is protected, open a pull request") as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "GitOperationFailed"
    assert at(bench) == file("1.0.0")
    assert bench.get(AUTOMATION).status.last_push_commit == ""


async def test_commits_are_signed_with_the_key_of_the_secret(bench: Bench) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    signing = {"type": "ssh", "secretRef": {"name": "signing"}}
    commit = {**git()["commit"], "signingKey": signing}
    bench.automation(git={"commit": commit})
    with pytest.raises(TransientError, match="Secret 'team/signing' not found"):
        await bench.run(AUTOMATION)
    bench.held.held["signing"] = {"git.asc": b"x"}
    with pytest.raises(TransientError, match="signingKey: it has no 'identity'") as missing:
        await bench.run(AUTOMATION)
    assert missing.value.reason == "SourceManagerFailed"
    bench.held.held["signing"] = {"identity": key.export_private_key()}

    await bench.run(AUTOMATION)

    assert b"BEGIN SSH SIGNATURE" in bench.fleet.git("cat-file", "commit", "main")


async def test_the_message_is_made_of_the_changes(bench: Bench) -> None:
    template = (
        "{{ .AutomationObject }}: {{ range .Changed.Changes }}{{ .OldValue }} -> {{ .NewValue }}"
        "{{ end }} for {{ .Values.team }}"
    )
    values = {"messageTemplateValues": {"team": "red"}}
    bench.automation(git={"commit": {**git()["commit"], "messageTemplate": template, **values}})

    await bench.run(AUTOMATION)

    told = bench.fleet.git("log", "-1", "--format=%s|%an|%ae", "main").decode().strip()
    image = "ghcr.io/org/web"
    assert told == (f"team/app: {image}:1.0.0 -> {image}:1.1.0 for red|bot|bot@example.com")


@pytest.mark.parametrize(
    "template", ["{{ .Nothing }}", "{{ env `PATH` }}", "{{ repeat 2000000000 `x` }}", "{{"]
)
async def test_a_template_that_cannot_be_used_pushes_nothing(bench: Bench, template: str) -> None:
    bench.automation(git={"commit": {**git()["commit"], "messageTemplate": template}})

    with pytest.raises(StalledError, match=r"spec\.git\.commit\.messageTemplate") as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "InvalidMessageTemplate"
    assert at(bench) == file("1.0.0")


async def test_policies_are_selected_and_those_of_others_are_not_used(bench: Bench) -> None:
    others = file("1.0.0").replace(f"{NAMESPACE}:", "other:")
    bench.fleet.commit({"apps/other.yaml": others})
    bench.automation(policySelector={"matchLabels": {"auto": "yes"}})

    await bench.run(AUTOMATION)

    assert at(bench) == file("1.0.0")
    assert bench.fleet.content("apps/other.yaml") == others
    assert bench.get(AUTOMATION).status.observed_policies == {}


async def test_a_marker_in_a_file_of_ten_megabytes(bench: Bench) -> None:
    block = "- {name: x, value: '0123456789', more: [a, b, c]} # comment\n" * 1000
    before = "list:\n" + block * ((10 << 20) // len(block))
    bench.fleet.commit({"apps/big.yaml": before + file("1.0.0").partition("\n")[2]})

    await bench.run(AUTOMATION)

    assert bench.fleet.content("apps/big.yaml") == before + file("1.1.0").partition("\n")[2]


@pytest.mark.parametrize(
    ("files", "path", "words"),
    [
        ({}, "./none", "there is no 'none'"),
        ({"apps/bad.yaml": f"a: [ {MARKER}\n"}, "./apps", "apps/bad.yaml: the document at line 1"),
    ],
)
async def test_files_that_cannot_be_changed_are_named(
    bench: Bench, files: dict[str, str], path: str, words: str
) -> None:
    bench.fleet.commit(files or {"x": "y"})
    bench.automation(update={"path": path})

    with pytest.raises(TransientError, match=words) as refused:
        await bench.run(AUTOMATION)

    assert refused.value.reason == "UpdateFailed"


async def test_a_source_of_another_namespace_needs_a_grant(bench: Bench) -> None:
    ref = {"kind": "GitRepository", "name": "app", "namespace": "platform"}
    bench.automation(sourceRef=ref)
    with pytest.raises(UngrantedError):
        await bench.run(AUTOMATION)

    given = grant(
        "platform",
        of={"group": "image.toolkit.fluxcd.io", "kind": AUTOMATION, "namespace": NAMESPACE},
        to={"group": SOURCE, "kind": "GitRepository"},
    )
    bench.references = allowing(given)
    bench.restart()
    with pytest.raises(WaitingError, match="'platform/app' not found"):
        await bench.run(AUTOMATION)


@pytest.mark.parametrize("status", [401, 500])
async def test_a_server_that_refuses_or_fails_is_told(bench: Bench, status: int) -> None:
    bench.git.faults.status = status

    with pytest.raises(PenstockError) as refused:
        await bench.run(AUTOMATION)

    expected = "AuthenticationFailed" if status == 401 else "GitOperationFailed"
    assert refused.value.reason == expected
    assert isinstance(refused.value, GitAuthError) == (status == 401)


async def test_what_is_kept_between_runs_is_bounded(bench: Bench) -> None:
    for number in range(12):
        bench.fleet.commit({"README": str(number)})
        bench.chosen(f"1.{number}.0")
        await bench.run(AUTOMATION)

    kept = await asyncio.to_thread(lambda: list((bench.root / "checkouts").iterdir()))
    assert len(kept) <= 8
