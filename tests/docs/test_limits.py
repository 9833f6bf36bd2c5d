"""Bounds that pages tell are those of the code."""

from pathlib import Path

import pytest

from apiserver import encoding, fairness, sanity, server
from apiserver.artifacts import blobs, files, shown
from apiserver.inventories import appliers, plans
from controllers.kustomize import kustomization
from controllers.source import bucket, bucketindex, ocirepository
from toolkit.apply.owned import pages
from toolkit.artifact import intake, quota
from toolkit.artifact import limits as packed
from toolkit.chart import charts
from toolkit.chart import limits as chart
from toolkit.decrypt import envelope, keyring
from toolkit.decrypt import tree as documents
from toolkit.decrypt.kms import services
from toolkit.net import connections
from toolkit.policy import signers
from toolkit.remote.git.limits import Limits
from toolkit.remote.oci import oci
from toolkit.verify.cosign import cosign, evidence, publicroot
from toolkit.verify.notation import judge, notation, revocation
from webhooks import ciphertextguard, imagechecks, imageregistries, references
from webhooks import server as gate

DOCS = Path(__file__).parents[2] / "docs"
ALLOWED = quota.UploadLimits()
GIT, OPEN, PACKED = Limits(), connections.Limits(), packed.DEFAULT
PLACES = {kind: f"{places}, {waiting}" for kind, places, waiting in fairness._PLACES}


def size(value: int) -> str:
    unit, shift = next(
        (unit, shift) for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)) if value >> shift
    )
    assert value % (1 << shift) == 0
    return f"{value >> shift} {unit}"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (
            "git-sources.md",
            f"{GIT.files:,} files, {size(GIT.file_bytes)} a file, {size(GIT.tree_bytes)} in all",
        ),
        ("oci-sources.md", f"{size(ocirepository.MAX_LAYER)} packed and unpacked"),
        ("oci-sources.md", f"{PACKED.entries:,} files, {size(PACKED.file_bytes)} a file"),
        ("bucket-sources.md", f"{bucketindex.MAX_LISTED:,} objects listed"),
        ("bucket-sources.md", f"{bucket.PARALLEL} are fetched at a time"),
        ("helm-sources.md", f"{size(chart.INDEX_BYTES)}, inflated; {chart.INDEX_CHARTS:,} charts"),
        ("helm-sources.md", f"{chart.INDEX_VERSIONS:,} versions, {chart.CHART_VERSIONS:,} of one"),
        ("helm-sources.md", f"{size(chart.CHART_BYTES)} packed, {size(chart.UNPACKED_BYTES)} and"),
        ("helm-sources.md", f"{chart.FILES:,} files unpacked, {size(chart.FILE_BYTES)} a file"),
        ("helm-sources.md", f"| .helmignore | {chart.IGNORE_RULES:,} lines |"),
        ("helm-sources.md", f"{size(charts.MEMORY_LIMIT)} of memory"),
        ("kustomizations.md", f"at most {kustomization._BUILD_SECONDS:.0f} seconds"),
        ("artifact-store.md", f"at most {size(ALLOWED.artifact_bytes)}, no slower than"),
        ("artifact-store.md", f"no slower than {size(intake.Pace().bytes_per_second)}/s"),
        ("artifact-store.md", f"would hold more than {size(ALLOWED.namespace_bytes)}"),
        ("verification.md", f"At most {cosign.MAX_SIGNATURES} of them are tried"),
        ("verification.md", f"none with more than {size(evidence.MAX_BYTES)}"),
        ("verification.md", f"more than {oci.MAX_PARTS} referrers"),
        ("verification.md", f"waits up to {publicroot.REFRESH_SECONDS:.0f} seconds for it"),
        ("notation.md", f"The first {notation.MAX_SIGNATURES} signatures of an artifact"),
        ("notation.md", f"{revocation.MAX_REQUESTS} requests about revocation"),
        ("notation.md", f"{size(judge._MAX_ANSWERS * 3 // 4)} in all"),
        ("tenancy.md", f"at most {references.MOST:,} references"),
        ("policies.md", f"More than {signers._MOST} identities"),
        ("image-verification.md", f"more than {imagechecks.MOST:,} new ones in one object"),
        ("image-verification.md", f"| {imageregistries.TAG_SECONDS:.0f} seconds |"),
        ("webhooks.md", f"A review is {size(gate.MAX_BODY)} at most"),
        (
            "webhooks.md",
            f"{size(gate.MAX_REVIEWING)} of reviews and {size(gate.MAX_CONVERTING)} of",
        ),
        (
            "webhooks.md",
            f"{OPEN.connections} connections and {OPEN.handshakes} unfinished handshakes",
        ),
        ("sops.md", f"{size(envelope.MAX_DOCUMENT)} of ciphertext, {documents.MAX_DEPTH} levels"),
        ("sops.md", f"{documents.MAX_NODES:,} nodes, {keyring.MAX_RECIPIENTS} recipients"),
        ("sops.md", f"{services.MAX_QUESTIONS} requests to key services"),
        ("sops.md", f"in at most {services.SECONDS:.0f} seconds"),
        ("sops.md", f"more than {ciphertextguard._ENTRIES:,} entries"),
        ("artifacts-api.md", f"for artifacts of up to {size(blobs.LARGEST)}"),
        ("artifacts-api.md", f"if the paths have more than {size(files._PATHS)} together"),
        ("artifacts-api.md", {100: "Beyond a hundred"}[shown.NAMED]),
        ("inventories.md", f"at most {pages.MOST:,} objects, {size(pages._MOST_BYTES)}"),
        ("inventories.md", f"the first {appliers._LABELS} by name"),
        ("aggregated-api.md", f"get and list at once, and waiting | {PLACES['reads']} |"),
        ("aggregated-api.md", f"streams of bytes at once, and waiting | {PLACES['streams']} |"),
        (
            "aggregated-api.md",
            f"{fairness._WATCHES:,}; of one user {fairness._WATCHES_OF_A_FLOW:,}",
        ),
        ("aggregated-api.md", f"answers up to {size(encoding._BLOCK)}"),
        ("aggregated-api.md", f"| `diff` and `plan` | {size(plans._MAX_ANSWER)};"),
        ("aggregated-api.md", f"{size(sanity.MAX_BODY)}, {size(server._REQUEST_BYTES)} |"),
        ("aggregated-api.md", f"| connections | {server._CONNECTIONS:,}, or"),
    ],
)
def test_a_bound_is_that_of_the_code(page: str, words: str) -> None:
    assert words.casefold() in " ".join((DOCS / page).read_text().split()).casefold()
