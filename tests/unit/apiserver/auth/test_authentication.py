"""Who somebody is, in upstream's order, and whom nobody can pretend to be."""

import time
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from multidict import CIMultiDict

from apiserver.auth import authentication, configuration
from apiserver.auth.authentication import Authentication, Credentials
from apiserver.auth.authorities import Authorities
from apiserver.auth.configuration import ConfigurationError, Trust
from apiserver.auth.reviews import Reviews
from apiserver.auth.tokens import Tokens, bearer
from apiserver.call import User
from apiserver.status import StatusError
from controlplane.certificates import Authority, KeyPair
from toolkit.kube.errors import ApiError
from toolkit.objects import Json

CLIENTS, PROXIES, STRANGERS = (Authority.create(name) for name in ("clients", "proxies", "others"))
AS_ALICE = (
    ("X-Remote-User", "alice"),
    ("X-Remote-Group", "staff"),
    ("X-Remote-Group", "system:masters"),
    ("X-Remote-Uid", "42"),
    ("X-Remote-Extra-Scopes%2fRead", "all"),
)


class Server:
    """Knows one token."""

    def __init__(self, *, error: ApiError | None = None) -> None:
        self.asked: list[Json] = []
        self.error = error

    async def request(self, method: str, path: str, *, body: Json) -> Json:
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        self.asked.append(body["spec"])
        if self.error:
            raise self.error
        if body["spec"]["token"] != "good":
            return {"status": {"authenticated": False}}
        user = {"username": "robot", "uid": "7", "groups": ["robots"], "extra": {"a": ["b"]}}
        return {"status": {"authenticated": True, "user": user}}


def trust(**more: object) -> Trust:
    return Trust(
        **{
            "clients": Authorities(CLIENTS.pair.certificate),
            "proxies": Authorities(PROXIES.pair.certificate),
            "allowed_names": ("front-proxy-client",),
            "username_headers": ("X-Remote-User",),
            "group_headers": ("X-Remote-Group",),
            "extra_prefixes": ("X-Remote-Extra-",),
            **more,
        }  # type: ignore[arg-type] - a test names what differs
    )


async def who(
    certificate: KeyPair | None = None,
    headers: Sequence[tuple[str, str]] = (),
    *,
    trusting: Trust | None = None,
    server: Server | None = None,
) -> User:
    der = None
    if certificate:
        pem = x509.load_pem_x509_certificate(certificate.certificate)
        der = pem.public_bytes(Encoding.DER)
    asking = Authentication(Tokens(Reviews(server or Server())))
    shown = Credentials(certificate=der, headers=CIMultiDict(headers))
    return await asking.user(trusting or trust(), shown)


async def test_a_front_proxy_speaks_for_others() -> None:
    user = await who(PROXIES.client("front-proxy-client"), AS_ALICE)

    assert user == User(
        name="alice",
        groups=("staff", "system:masters", "system:authenticated"),
        extra={"scopes/read": ("all",)},
    )


async def test_a_uid_counts_only_under_a_header_that_is_listed() -> None:
    listed = trust(uid_headers=("X-Remote-Uid",))

    assert (await who(PROXIES.client("front-proxy-client"), AS_ALICE)).uid == ""
    assert (await who(PROXIES.client("front-proxy-client"), AS_ALICE, trusting=listed)).uid == "42"


async def test_headers_have_the_names_that_were_configured() -> None:
    renamed = trust(username_headers=("X-Other", "X-Person"), group_headers=())
    headers = (*AS_ALICE, ("x-person", "bob"))

    user = await who(PROXIES.client("front-proxy-client"), headers, trusting=renamed)

    assert (user.name, user.groups) == ("bob", ("system:authenticated",))


async def test_no_list_of_names_means_any_front_proxy() -> None:
    assert (
        await who(PROXIES.client("whoever"), AS_ALICE, trusting=trust(allowed_names=()))
    ).name == "alice"


FORGERIES = {
    "no certificate": (None, "system:anonymous"),
    "a client's certificate": (CLIENTS.client("mallory"), "mallory"),
    "a client's with a front proxy's name": (
        CLIENTS.client("front-proxy-client"),
        "front-proxy-client",
    ),
}


@pytest.mark.parametrize("case", FORGERIES)
async def test_headers_of_anybody_else_are_ignored(case: str) -> None:
    certificate, name = FORGERIES[case]

    user = await who(certificate, AS_ALICE)

    assert user.name == name
    assert "system:masters" not in user.groups


REFUSED = {
    "a front proxy of another name": PROXIES.client("mallory"),
    "an unknown authority": STRANGERS.client("front-proxy-client"),
    "a front proxy's server certificate": PROXIES.serving("front-proxy-client", hosts=("a.b",)),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_certificate_that_is_worth_nothing_is_refused(case: str) -> None:
    with pytest.raises(StatusError) as caught:
        await who(REFUSED[case], AS_ALICE)

    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")


async def test_no_front_proxies_are_trusted_where_none_are_configured() -> None:
    nobody = trust(proxies=Authorities(b""))

    with pytest.raises(StatusError, match="Unauthorized"):
        await who(PROXIES.client("front-proxy-client"), AS_ALICE, trusting=nobody)


async def test_a_front_proxy_that_names_nobody_is_nobody() -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        await who(PROXIES.client("front-proxy-client"), [("X-Remote-Group", "system:masters")])


async def test_names_that_are_no_text_are_refused() -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        await who(PROXIES.client("front-proxy-client"), [("X-Remote-User", "\udcff")])


async def test_a_client_is_who_its_certificate_says() -> None:
    user = await who(CLIENTS.client("carol", groups=("a", "b")))

    assert (user.name, user.groups) == ("carol", ("a", "b", "system:authenticated"))


async def test_a_token_is_asked_about_once_in_a_while() -> None:
    server = Server()
    tokens = Tokens(Reviews(server), now=(clock := Clock()).now)

    assert (first := await tokens.user("good")) == await tokens.user("good")
    clock.time += 10.0
    await tokens.user("good")

    assert first is not None
    assert (first.name, first.uid, first.extra) == ("robot", "7", {"a": ["b"]})
    assert server.asked == [{"token": "good"}] * 2


async def test_a_wrong_token_is_refused_and_a_good_one_helps_a_useless_certificate() -> None:
    with pytest.raises(StatusError, match="Unauthorized"):
        await who(headers=[("Authorization", "Bearer bad")])

    user = await who(STRANGERS.client("x"), [("Authorization", "bearer good")])
    assert user.groups == ("robots", "system:authenticated")


async def test_no_answer_about_a_token_is_no_answer_about_the_user() -> None:
    server = Server(error=ApiError("no", status=403))

    with pytest.raises(StatusError) as caught:
        await who(headers=[("Authorization", "Bearer good")], server=server)

    assert caught.value.code == 503


async def test_nobody_is_anonymous() -> None:
    assert await who() == User(name="system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer a b", "a"), ("bearer  x", "x"), ("Basic abc", ""), ("Bearer", ""), ("", "")],
)
def test_a_token_is_read_from_its_header(header: str, token: str) -> None:
    assert bearer(header) == token


def test_handlers_see_neither_credentials_nor_what_front_proxies_say() -> None:
    headers = CIMultiDict([*AS_ALICE, ("Authorization", "Bearer good"), ("Accept", "x")])

    assert list(authentication.stripped(trust(), headers).items()) == [
        ("X-Remote-Uid", "42"),
        ("Accept", "x"),
    ]


def test_the_config_map_is_read_as_the_api_server_writes_it() -> None:
    data = {
        "client-ca-file": CLIENTS.pair.certificate.decode(),
        "requestheader-client-ca-file": PROXIES.pair.certificate.decode(),
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }

    read = configuration.decode({"data": data})

    assert read.allowed_names == ("front-proxy-client",)
    assert read.username_headers == ("X-Remote-User",)
    assert read.uid_headers == ()
    assert read.bundle.count(b"BEGIN CERTIFICATE") == 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("client-ca-file", "-----BEGIN"),
        ("requestheader-allowed-names", "front-proxy-client"),
        ("requestheader-allowed-names", '{"a": 1}'),
    ],
)
def test_what_cannot_be_read_of_it_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        configuration.decode({"data": {key: value}})


class Clock:
    """Stands still until told otherwise."""

    def __init__(self) -> None:
        self.time = time.monotonic()

    def now(self) -> float:
        return self.time


@pytest.mark.parametrize(
    ("authority", "name", "told"),
    [
        (PROXIES, "front-proxy-client", ("203.0.113.7", "10.0.0.1")),
        (PROXIES, "somebody-else", ()),
        (CLIENTS, "front-proxy-client", ()),
        (STRANGERS, "front-proxy-client", ()),
        (None, "", ()),
    ],
)
def test_only_a_front_proxy_tells_where_a_request_came_from(
    authority: Authority | None, name: str, told: tuple[str, ...]
) -> None:
    der = None
    if authority:
        pem = x509.load_pem_x509_certificate(authority.client(name).certificate)
        der = pem.public_bytes(Encoding.DER)
    headers = CIMultiDict([("X-Forwarded-For", "203.0.113.7, 10.0.0.1"), *AS_ALICE])

    shown = Credentials(certificate=der, headers=headers)

    assert authentication.forwarded(trust(), shown) == told
