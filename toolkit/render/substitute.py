"""Variables in built objects: ``spec.postBuild`` of a Kustomization.

The text of an object decides, as in Flux (fluxcd/pkg ``kustomize/kustomize_varsub.go``): in
``replicas: ${n}`` the value 3 becomes a number. Forms of bash are understood, ``$${n}`` is not a
variable.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from toolkit.errors import TransientError
from toolkit.native import calls
from toolkit.native.pool import WorkerMemoryError, WorkerPool, WorkerTimeoutError
from toolkit.objects import Json, dig, ref_of

OFF_SWITCH: Final = "kustomize.toolkit.fluxcd.io/substitute"
"""Label or annotation with which an object is left alone; its value is ``disabled``."""

_BROKEN: Final = "not YAML any more"
_QUOTED: Final = re.compile(r"(['\"`]).*\1", re.DOTALL)
_NAME: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_UNSET: Final = "variable not set (strict mode)"


class SubstitutionError(TransientError):
    """The variables of an object cannot be replaced, or a variable has an impossible name."""

    default_reason = "BuildFailed"


async def substitute(  # noqa: PLR0913  # the inputs of a substitution
    pool: WorkerPool,
    objects: Sequence[Json],
    variables: Mapping[str, str],
    *,
    strict: bool,
    always: bool,
    flow: str,
    timeout: float,  # noqa: ASYNC109  # it starts with the work
) -> tuple[Json, ...]:
    """Return ``objects`` with variables replaced; line breaks are removed from values.

    Without any variables nothing is replaced, unless ``always``. With ``strict``, a variable
    without value and default is an error; otherwise it is replaced by the empty string. ``flow`` is
    that of ``WorkerPool.call``.

    Raises:
        SubstitutionError: an object cannot be substituted; the message names it.
    """
    if not variables and not always:
        return tuple(objects)
    values = {require_name(name): value.replace("\n", "") for name, value in variables.items()}
    concerned = [number for number, obj in enumerate(objects) if _is_concerned(obj)]
    if not concerned:
        return tuple(objects)
    request = {
        "objects": [objects[number] for number in concerned],
        "variables": values,
        "strict": strict,
    }
    try:
        answer = await calls.call(pool, "substitute", request, flow=flow, timeout=timeout)
    except calls.EngineError as exc:
        raise _translate(exc, [objects[number] for number in concerned]) from exc
    except (WorkerTimeoutError, WorkerMemoryError) as exc:
        raise SubstitutionError(f"variable substitution failed: {exc}") from exc
    replaced = dict(zip(concerned, answer["objects"], strict=True))
    return tuple(replaced.get(number, obj) for number, obj in enumerate(objects))


async def substitute_text(  # noqa: PLR0913  # the inputs of a substitution
    pool: WorkerPool,
    text: str,
    variables: Mapping[str, str],
    *,
    strict: bool,
    flow: str,
    timeout: float,  # noqa: ASYNC109  # it starts with the work
) -> str:
    """Return ``text``, which need not be YAML, with the values of ``variables``, line by line.

    Raises:
        SubstitutionError: a line cannot be read, or with ``strict`` a variable has neither value
            nor default; the message has the number of the line.
    """
    request = {"text": text, "variables": variables, "strict": strict}
    try:
        answer = await calls.call(pool, "substitute.text", request, flow=flow, timeout=timeout)
    except calls.EngineError as exc:
        line = (exc.detail or {}).get("line", 0) if exc.code == "SubstitutionFailed" else 0
        where = f"line {line}: " if line else ""
        raise SubstitutionError(f"{where}variable substitution failed: {exc}") from exc
    except (WorkerTimeoutError, WorkerMemoryError) as exc:
        raise SubstitutionError(f"variable substitution failed: {exc}") from exc
    return str(answer["text"])


def require_name(name: str) -> str:
    """Return the name of a variable.

    Raises:
        SubstitutionError: it cannot be one.
    """
    if _NAME.fullmatch(name) is None:
        raise SubstitutionError(
            f"variable name '{name}' is invalid: it must match ^[_a-zA-Z][_a-zA-Z0-9]*$"
        )
    return name


def _is_concerned(obj: Json) -> bool:
    switches = (
        dig(obj, "metadata", field, OFF_SWITCH, default="") for field in ("labels", "annotations")
    )
    # Objects without a "$" have no variables, so they are not sent to a worker.
    return "disabled" not in switches and b"$" in msgspec.json.encode(obj)


def _translate(error: calls.EngineError, sent: Sequence[Json]) -> SubstitutionError:
    if error.code == "SubstitutionFailed":
        ref = ref_of(sent[error.detail["index"]])
        # begins as Flux's, which filters match
        return SubstitutionError(f"post build failed for '{ref.name}': {ref}: {_told(error)}")
    return SubstitutionError(f"variable substitution failed: {error}")


def _told(error: calls.EngineError) -> str:
    """Return an error with its remedy.

    What a parser quotes is left out: that is a part of a value, perhaps a secret.
    """
    message = str(error)
    if _UNSET in message:
        return (
            f"{message}: set it in spec.postBuild, give it a default with ${{name:=default}}, or"
            " write $${name} to keep it"
        )
    if message.startswith(_BROKEN):
        brief = _QUOTED.sub("…", message)
        return f"{brief}: write quotes into the value of the variable, such as '\"*a\"'"
    return message
