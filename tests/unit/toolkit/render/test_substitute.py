"""Variables become values, in the objects that want them."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolkit.native.pool import WorkerPool
from toolkit.objects import Json
from toolkit.render.substitute import SubstitutionError, substitute


@pytest.fixture
def pool(engine_pool: WorkerPool) -> WorkerPool:
    return engine_pool


def _config(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def _one(pool: WorkerPool, text: str, *, strict: bool = False, **variables: str) -> object:
    (obj,) = await substitute(
        pool, [_config("c", v=text)], variables, strict=strict, always=True, timeout=10, flow="team"
    )
    return obj["data"]["v"]


FORMS: dict[str, object] = {
    "${a}": "two",
    "<${a}>": "<two>",
    "${n}": 3,
    "n${n}": "n3",
    "${b:-one}": "one",
    "${b:=${a}}": "two",
    "<${missing:=}>": "<>",
    "${a:-unused}": "two",
    "${a:0:2}": "tw",
    "${a:1}": "wo",
    "${#a}": 3,
    "n${#a}": "n3",
    "${a^^}": "TWO",
    "${a^}": "Two",
    "${loud,,}": "loud",
    "${a/o/0}": "tw0",
    "${path//./-}": "a-b-c",
    "${path#*.}": "b.c",
    "${path%.*}": "a.b",
    "$${a}": "${a}",
    "$a $(a)": "$a $(a)",
    "cost: 5$": "cost: 5$",
    "${missing}": None,
}


async def test_forms_of_bash_are_understood(pool: WorkerPool) -> None:
    objects = [_config(str(number), v=text) for number, text in enumerate(FORMS)]
    values = {"a": "two", "n": "3", "loud": "LOUD", "path": "a.b.c"}

    replaced = await substitute(
        pool, objects, values, strict=False, always=True, timeout=10, flow="team"
    )

    found = dict(zip(FORMS, (obj["data"]["v"] for obj in replaced), strict=True))
    assert found == FORMS


async def test_line_breaks_are_taken_out_of_values(pool: WorkerPool) -> None:
    assert await _one(pool, "${a}", a="x\ny\n") == "xy"


async def test_without_variables_nothing_is_replaced_unless_always(pool: WorkerPool) -> None:
    obj = _config("c", v="${a:=b}")

    kept = await substitute(pool, [obj], {}, strict=True, always=False, timeout=10, flow="team")
    replaced = await substitute(pool, [obj], {}, strict=True, always=True, timeout=10, flow="team")

    assert kept == (obj,)
    assert replaced[0]["data"] == {"v": "b"}


async def test_strict_names_object_and_variable(pool: WorkerPool) -> None:
    objects = [_config("fine", v="${a}"), _config("plain"), _config("broken", v="${missing}")]

    with pytest.raises(SubstitutionError, match=r'ConfigMap/broken: .* "missing"') as caught:
        await substitute(
            pool, objects, {"a": "b"}, strict=True, always=False, timeout=10, flow="team"
        )

    assert caught.value.reason == "BuildFailed"


@pytest.mark.parametrize("field", ["labels", "annotations"])
async def test_an_object_can_be_left_alone(pool: WorkerPool, field: str) -> None:
    switched_off = _config("off", v="${a}")
    switched_off["metadata"][field] = {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}
    objects = [switched_off, _config("on", v="${a}")]

    off, on = await substitute(
        pool, objects, {"a": "b"}, strict=True, always=False, timeout=10, flow="team"
    )

    assert off == switched_off
    assert on["data"] == {"v": "b"}


async def test_order_is_kept(pool: WorkerPool) -> None:
    objects = [_config(str(n), v="${a}" if n % 3 else "x") for n in range(10)]

    replaced = await substitute(
        pool, objects, {"a": "b"}, strict=True, always=False, timeout=10, flow="team"
    )

    assert [obj["metadata"]["name"] for obj in replaced] == [str(n) for n in range(10)]


@pytest.mark.parametrize("name", ["1a", "a-b", "", "a b", "ä", "a\n"])
async def test_an_impossible_name_is_refused(pool: WorkerPool, name: str) -> None:
    with pytest.raises(SubstitutionError, match=r"(?s)variable name .* is invalid"):
        await substitute(pool, [], {name: "x"}, strict=False, always=False, timeout=10, flow="team")


async def test_values_that_break_the_object_are_refused(pool: WorkerPool) -> None:
    with pytest.raises(SubstitutionError, match="ConfigMap/c: not YAML any more"):
        await _one(pool, "${a}", a="{b: [")


@pytest.mark.parametrize("value", ["*hunter2", "!!int hunter2"])
async def test_values_that_break_the_object_are_not_quoted(pool: WorkerPool, value: str) -> None:
    with pytest.raises(SubstitutionError, match="write quotes into the value") as caught:
        await _one(pool, "${a}", a=value)

    assert "hunter2" not in str(caught.value)


@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=st.text(alphabet="${}ab:-=/#%^,\\ 01\n\"'é", max_size=30))
async def test_any_text_ends_in_an_object_or_an_error(pool: WorkerPool, text: str) -> None:
    try:
        await _one(pool, text, a="x", b="y: z")
    except SubstitutionError as error:
        assert str(error).startswith("post build failed for 'c': ConfigMap/c: ")  # noqa: PT017  # either end is right
