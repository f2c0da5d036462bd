import asyncio
import base64
import json
import time
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx2
import jwt
import pytest
from clvlab_service.app import create_app
from clvlab_service.auth import Authenticator, FileKey, InvalidTokenError, JwksKeys, NoKeys, authenticator
from clvlab_service.settings import Settings
from clvlab_service.telemetry import logger
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tests.service.serving import running
from tests.service.tokens import ALICE, AUDIENCE, ISSUER, Provider, make_jwk, make_key, make_token, serving
from tests.waiting import PATIENCE_S

KEY = make_key()
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
LOG = logger("error")
NOW = int(time.time())


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


@asynccontextmanager
async def jwks(provider, *, refresh_s=1000, cooldown_s=10, max_stale_s=100, clock=None):
    keys = JwksKeys(provider.url, refresh_s, cooldown_s, max_stale_s, LOG, clock or Clock())
    await keys.start()
    while not provider.asked or keys._fetching:
        await asyncio.sleep(0.005)
    try:
        yield Authenticator(keys, ISSUER, AUDIENCE, 86_400)
    finally:
        await keys.stop()


@pytest.fixture
def provider():
    with serving(Provider(make_jwk(KEY))) as found:
        yield found


@pytest.fixture(scope="session")
def by_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "public.pem"
    path.write_bytes(PEM)
    return Authenticator(FileKey(path), ISSUER, AUDIENCE, 86_400)


def principal(auth, token):
    return asyncio.run(auth.principal(f"Bearer {token}"))


async def refused(auth, token):
    try:
        await auth.principal(f"Bearer {token}")
    except InvalidTokenError as error:
        return str(error)
    return None


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
def test_a_token_of_each_allowed_algorithm_gives_its_did(algorithm):
    key = make_key(algorithm)

    async def run():
        with serving(Provider(make_jwk(key, algorithm))) as provider:
            async with jwks(provider) as auth:
                return await auth.principal(f"Bearer {make_token(key, algorithm)}")

    assert asyncio.run(run()) == ALICE


def test_a_pem_file_verifies_whatever_key_id_a_token_names(by_file):
    assert principal(by_file, make_token(KEY, kid="anything")) == ALICE


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": None}, "exp"),
        ({"iat": None}, "iat"),
        ({"sub": None}, "sub"),
        ({"iss": None}, "iss"),
        ({"aud": None}, "aud"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"aud": "another service"}, "Audience"),
        ({"exp": timedelta(seconds=-31), "iat": timedelta(seconds=-600)}, "expired"),
        ({"iat": timedelta(seconds=60)}, "iat"),
        ({"nbf": timedelta(seconds=60)}, "nbf"),
        ({"exp": 10**18}, "live at most"),
        ({"exp": timedelta(seconds=86_411), "iat": timedelta()}, "live at most"),
        ({"exp": 1e308}, "live at most"),
        ({"exp": float("inf")}, "exp"),
        ({"exp": float("nan")}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"exp": [1]}, "exp"),
        ({"exp": "99999999999"}, "exp must be a number"),
        ({"iat": str(int(time.time()))}, "iat must be a number"),
        ({"nbf": str(int(time.time()))}, "nbf must be a number"),
        ({"exp": True}, "exp"),
        ({"sub": "alice"}, "DID"),
        ({"sub": "did:"}, "DID"),
        ({"sub": "did:key:a\x00b"}, "DID"),
        ({"sub": "did:key:" + "a" * 300}, "DID"),
        ({"sub": 5}, "[Ss]ubject"),
    ],
)
def test_a_token_with_a_bad_claim_is_refused_with_the_reason(by_file, claims, why):
    with pytest.raises(InvalidTokenError, match=why):
        principal(by_file, encoded(claims))


def encoded(claims):
    """Like ``make_token``, for claims that PyJWT itself would not write; a difference counts from now."""
    now = int(time.time())
    payload = {"sub": ALICE, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600} | claims
    payload = {
        name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
        for name, value in payload.items()
        if value is not None
    }
    return jwt.api_jws.encode(json.dumps(payload).encode(), KEY, "ES256", {"kid": "one"})


def test_a_clock_that_is_off_by_half_a_minute_is_forgiven(by_file):
    assert principal(by_file, encoded({"exp": timedelta(seconds=-20), "iat": timedelta(seconds=-600)})) == ALICE
    assert principal(by_file, encoded({"iat": timedelta(seconds=20)})) == ALICE


def unsigned(header, claims=None):
    parts = (header, claims or {"sub": ALICE, "iss": ISSUER, "aud": AUDIENCE, "iat": NOW, "exp": NOW + 80_000})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


@pytest.mark.parametrize(
    "token",
    [
        unsigned({"alg": "none", "typ": "JWT"}),
        unsigned({"alg": "None", "kid": "one"}),
        unsigned({"typ": "JWT"}),
        unsigned({"alg": "ES256", "kid": "one"}),
        make_token(make_key()),
        make_token(ec.generate_private_key(ec.SECP384R1()), "ES384"),
        make_token(rsa.generate_private_key(65537, 2048), "RS256"),
        make_token(rsa.generate_private_key(65537, 2048), "PS256"),
        make_token(KEY)[:-4] + "AAAA",
        make_token(KEY, headers={"crit": ["b64"], "b64": False}),
    ],
    ids=[
        "none", "None", "no alg", "unsigned", "other key", "ES384", "RS256 against an EC key", "PS256", "altered", "detached"
    ],
)  # fmt: skip
def test_a_token_that_is_not_signed_by_the_key_is_refused(by_file, token):
    with pytest.raises(InvalidTokenError):
        principal(by_file, token)


def test_the_public_key_is_no_shared_secret(by_file):
    import hashlib
    import hmac

    signing = unsigned({"alg": "HS256", "kid": "one"})[:-1]
    mac = base64.urlsafe_b64encode(hmac.new(PEM, signing.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()

    with pytest.raises(InvalidTokenError, match="algorithm"):
        principal(by_file, f"{signing}.{mac}")


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer a.b.c",
        "Bearer " + "a" * 9000,
        "Bearer ..",
        "Bearer \xff\xfe",
        f"Bearer {base64.urlsafe_b64encode(b'[' * 5000).decode()}.e30.AA",
        f"Bearer {unsigned({'alg': 'ES256', 'kid': ['one']})}AA",
    ],
)
def test_a_header_that_carries_no_token_is_refused(by_file, header):
    with pytest.raises(InvalidTokenError):
        asyncio.run(by_file.principal(header))


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: base64.urlsafe_b64encode(raw).decode() + ".e30.AA"))
def test_garbage_is_refused_and_never_another_error(by_file, garbage):
    with pytest.raises(InvalidTokenError):
        asyncio.run(by_file.principal(f"Bearer {garbage}"))


def test_without_keys_every_token_is_refused():
    with pytest.raises(InvalidTokenError, match="no key"):
        principal(Authenticator(NoKeys(), None, None, 60), make_token(KEY))


def test_a_rotated_key_is_fetched_when_it_is_first_named(provider):
    new = make_key()

    async def run():
        clock = Clock()
        async with jwks(provider, clock=clock) as auth:
            provider.keys = [make_jwk(new, kid="two")]
            clock.seconds = 11
            assert await auth.principal(f"Bearer {make_token(new, kid='two')}") == ALICE
            return await refused(auth, make_token(KEY))

    assert "no key is known" in asyncio.run(run())


def test_a_flood_of_unknown_key_ids_costs_one_fetch_per_cooldown_and_delays_no_known_key(provider):
    async def run():
        clock = Clock()
        async with jwks(provider, clock=clock) as auth:
            provider.goes_on.clear()
            clock.seconds = 11
            flood = [asyncio.create_task(refused(auth, make_token(KEY, kid=f"k{n}"))) for n in range(50)]
            while provider.asked < 2:
                await asyncio.sleep(0.01)
            assert await auth.principal(f"Bearer {make_token(KEY)}") == ALICE
            assert not any(one.done() for one in flood), "the known key waited for the fetch"
            provider.goes_on.set()
            assert all("no key" in reason for reason in await asyncio.gather(*flood))
            for n in range(50):
                assert await refused(auth, make_token(KEY, kid=f"again{n}"))

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert provider.asked == 2


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b""),
        (302, b""),
        (200, b"not json"),
        (200, b"[]"),
        (200, b'{"keys": 5}'),
        (200, b'{"keys": []}'),
        (200, b"[" * 9999),
    ],
)
def test_while_the_provider_is_down_old_keys_serve_up_to_a_maximum_age(provider, status, body):
    async def run():
        clock = Clock()
        async with jwks(provider, clock=clock) as auth:
            provider.status, provider.body = status, body
            clock.seconds = 99
            assert await refused(auth, make_token(KEY, kid="unknown"))
            assert await auth.principal(f"Bearer {make_token(KEY)}") == ALICE
            clock.seconds = 120
            assert "no key" in await refused(auth, make_token(KEY))
            provider.status, provider.body = 200, None
            clock.seconds = 140
            return await auth.principal(f"Bearer {make_token(KEY)}")

    assert asyncio.run(run()) == ALICE


def test_keys_are_refreshed_in_the_background(provider):
    new = make_key()

    async def run():
        async with jwks(provider, refresh_s=0.05, cooldown_s=1000) as auth:
            provider.keys = [make_jwk(new, kid="two")]
            while provider.asked < 3:
                await asyncio.sleep(0.01)
            return await auth.principal(f"Bearer {make_token(new, kid='two')}")

    assert asyncio.run(asyncio.wait_for(run(), PATIENCE_S)) == ALICE


def test_keys_that_sign_nothing_allowed_are_left_out(provider):
    secret = {"kty": "oct", "k": base64.urlsafe_b64encode(b"s" * 32).decode(), "kid": "shared", "alg": "HS256"}
    encryption = make_jwk(KEY, kid="enc") | {"use": "enc"}
    weak = rsa.generate_private_key(65537, 1024)
    unreadable = [{"kty": "EC"}, 5, make_jwk(KEY, kid="odd") | {"x": 5}, make_jwk(KEY, kid={})]
    provider.keys = [secret, encryption, *unreadable, make_jwk(weak, "RS256", "weak"), make_jwk(KEY)]

    async def run():
        async with jwks(provider) as auth:
            found = [await auth.keys.key(kid) for kid in ("shared", "enc", "odd", "weak", None)]
            return found, await auth.principal(f"Bearer {make_token(KEY)}")

    assert asyncio.run(run()) == ([None] * 5, ALICE)


@pytest.mark.parametrize(("size", "known"), [(1_000_000, True), (1_000_001, False)])
def test_a_key_set_over_the_size_limit_is_not_read(provider, size, known):
    provider.body = json.dumps({"keys": [make_jwk(KEY)]}).encode().ljust(size)

    async def run():
        async with jwks(provider) as auth:
            return await auth.keys.key("one") is not None

    assert asyncio.run(run()) is known


def test_a_key_serves_its_own_algorithm_only(provider):
    provider.keys = [make_jwk(make_key("RS256"), "RS256")]

    async def run():
        async with jwks(provider) as auth:
            return await refused(auth, make_token(KEY))

    assert "not valid" in asyncio.run(run())


@pytest.mark.parametrize(
    "wrong",
    [
        {"jwks_url": "https://a.example/jwks"},
        {"jwks_url": "http://a.example/jwks", "jwt_issuer": "i", "jwt_audience": "a"},
        {"jwks_url": "file:///etc/passwd", "jwt_issuer": "i", "jwt_audience": "a"},
        {"jwks_url": "https://a", "jwt_public_key_file": "k.pem", "jwt_issuer": "i", "jwt_audience": "a"},
        {"jwt_public_key_file": "k.pem", "jwt_issuer": "i"},
        {"jwt_max_lifetime_s": 0},
        {"log_level": "loud"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="1 validation error"):
        Settings(**wrong)


def test_a_key_file_must_hold_a_strong_public_key_of_a_known_kind(tmp_path):
    weak = rsa.generate_private_key(65537, 1024).public_key()
    path = tmp_path / "weak.pem"
    path.write_bytes(weak.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    with pytest.raises(ValueError, match="at least 2048 bits"):
        FileKey(path)
    with pytest.raises(FileNotFoundError):
        authenticator(Settings(jwt_public_key_file=tmp_path / "gone.pem", jwt_issuer="i", jwt_audience="a"), LOG)


def test_settings_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("CLVLAB_CORS_ORIGINS", "https://a.example, https://b.example")
    monkeypatch.setenv("CLVLAB_DATABASE_URL", "postgresql://user:secret@host/db")

    settings = Settings()

    assert settings.cors_origins == ("https://a.example", "https://b.example")
    assert "secret" not in repr(settings)


def test_a_service_takes_the_tokens_of_its_provider_and_outlives_an_outage(provider):
    settings = {"jwks_url": provider.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "log_level": "error"}
    config = {"competition_type": "arena", "source_mode": "replay", "market_scope": "all", "roster_size": 2}

    def created(client, token):
        return client.post("/competitions", json=config, headers={"Authorization": f"Bearer {token}"}).status_code

    with running(create_app(Settings(**settings))) as url, httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        assert created(client, make_token(KEY)) == 201
        provider.status = 503
        assert created(client, make_token(KEY)) == 201
        assert created(client, make_token(KEY, kid="unknown")) == 401
        assert created(client, make_token(make_key())) == 401


def test_a_service_starts_while_its_provider_is_down(provider):
    provider.status = 503
    settings = {"jwks_url": provider.url, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "log_level": "error"}

    with (
        running(create_app(Settings(**settings, jwks_cooldown_s=0))) as url,
        httpx2.Client(base_url=url, timeout=PATIENCE_S) as client,
    ):
        header = {"Authorization": f"Bearer {make_token(KEY)}"}
        assert client.post("/competitions", headers=header).status_code == 401
        provider.status = 200
        assert client.post("/competitions", headers=header).status_code == 422
