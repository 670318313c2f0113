"""Tokens have roles, and each may do what its role may; the file has digests alone."""

from __future__ import annotations

import json
import re
import stat
from hashlib import sha256

import pytest
from tests.unit.serve.test_api import READ, P

from headrace.cli.main import call
from headrace.errors import PipelineError
from headrace.serve.addresses import addresses
from headrace.serve.api.routes import ROUTES
from headrace.serve.proxies import proxy_users
from headrace.serve.roles import Role
from headrace.serve.tokens import TokenFile

NOW = 1_800_000_000.0


def test_each_role_includes_those_before_it():
    roles = list(Role)

    assert all(one.includes(other) == (roles.index(one) >= roles.index(other)) for one in roles for other in roles)


def test_the_file_of_the_tokens_has_digests_alone_and_is_the_owners(tmp_path):
    stored = tmp_path / "new" / "serve.json"
    file = TokenFile(stored)

    first, again = file.create(NOW), file.create(NOW)
    ci = file.add("ci", Role.OPERATOR, NOW)

    assert re.fullmatch(r"hr_[0-9a-f]{8}_[\w-]{43}", first)
    assert (again, stat.S_IMODE(stored.stat().st_mode)) == (None, 0o600)
    assert not any(text in stored.read_text() for text in (first, ci))
    tokens = file.read()
    assert [(one.name, one.role) for one in tokens.all] == [("admin", Role.ADMIN), ("ci", Role.OPERATOR)]
    assert (tokens.of_text(ci, NOW).name, tokens.of_text(ci[:-1], NOW), tokens.of_text("", NOW)) == ("ci", None, None)


def test_without_a_file_no_token_is_known(tmp_path):
    file = TokenFile(tmp_path / "serve.json")

    with pytest.raises(PipelineError) as caught:
        file.revoke("ann")

    assert (file.known(), caught.value.code) == ((), "SERVE.NO_TOKEN")


def test_a_file_in_a_folder_that_cannot_be_written_is_used_as_it_is(tmp_path, monkeypatch):
    file = TokenFile(tmp_path / "serve.json")
    text = file.add("ci", Role.VIEWER, NOW)

    def refused(*_args):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("headrace.serve.tokens.locked", refused)

    assert (file.create(NOW), file.read().of_text(text, NOW).name) == (None, "ci")
    with pytest.raises(PipelineError) as caught:
        file.add("eve", Role.VIEWER, NOW)
    assert caught.value.code == "SERVE.TOKEN_FILE"


def test_a_token_that_was_made_before_the_first_start_is_no_admin(tmp_path):
    file = TokenFile(tmp_path / "serve.json")
    file.add("ann", Role.OPERATOR, NOW)
    assert (file.create(NOW), file.read().has_admin(NOW)) == (None, False)

    file.create(NOW, replace=True)
    assert file.read().has_admin(NOW)


def test_a_new_token_of_the_admin_leaves_the_others(tmp_path):
    file = TokenFile(tmp_path / "serve.json")
    first, ci = file.create(NOW), file.add("ci", Role.VIEWER, NOW)

    second = file.create(NOW, replace=True)

    tokens = file.read()
    assert [tokens.of_text(text, NOW) is not None for text in (first, second, ci)] == [False, True, True]


def test_a_token_ends_and_makes_room_for_its_successor(tmp_path):
    file = TokenFile(tmp_path / "serve.json")
    text = file.add("ci", Role.VIEWER, NOW, NOW + 60)

    with pytest.raises(PipelineError) as caught:
        file.add("ci", Role.VIEWER, NOW + 59)
    later = file.add("ci", Role.ADMIN, NOW + 60)

    assert caught.value.code == "SERVE.TOKEN_EXISTS"
    tokens = file.read()
    assert (tokens.of_text(text, NOW), tokens.of_text(later, NOW + 10**9).role) == (None, Role.ADMIN)


def test_the_file_of_an_older_version_has_one_token_of_an_admin(tmp_path):
    stored = tmp_path / "serve.json"
    stored.write_text(json.dumps({"format": 1, "sha256": sha256(b"hr_old").hexdigest()}))
    stored.chmod(0o600)
    file = TokenFile(stored)

    ci = file.add("ci", Role.VIEWER, NOW)

    tokens = file.read()
    assert (tokens.of_text("hr_old", NOW).role, tokens.of_text(ci, NOW).role) == (Role.ADMIN, Role.VIEWER)


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        ("{", 0o600),
        ("[]", 0o600),
        ('{"format": 3, "tokens": []}', 0o600),
        ('{"format": 1, "sha256": "x"}', 0o600),
        (
            '{"format": 2, "tokens": [{"name": "a", "role": "root", "sha256": "x", "made_at": 0, "ends_at": null}]}',
            0o600,
        ),
        (None, 0o644),
        (None, 0o620),
    ],
)
def test_a_file_that_others_may_change_or_that_is_damaged_opens_nothing(tmp_path, content, mode):
    file = TokenFile(tmp_path / "serve.json")
    file.create(NOW)
    if content is not None:
        (tmp_path / "serve.json").write_text(content)
    (tmp_path / "serve.json").chmod(mode)

    with pytest.raises(PipelineError) as caught:
        file.read()
    replaced = file.create(NOW, replace=True)

    assert caught.value.code == "SERVE.TOKEN_FILE"
    # What others could have written is not believed.
    assert [one.name for one in file.read().all] == ["admin"]
    assert file.read().of_text(replaced, NOW) is not None


@pytest.mark.parametrize("name", ["", " ci", "-x", "a/b", "a\nb", "x" * 65, "<b>"])
def test_names_that_could_mislead_are_refused(tmp_path, name):
    with pytest.raises(PipelineError) as caught:
        TokenFile(tmp_path / "serve.json").add(name, Role.VIEWER, NOW)

    assert caught.value.code == "SERVE.TOKEN_NAME"


def test_verbs_create_list_and_revoke_tokens(tmp_path, capsys):
    file = f"--token-file={tmp_path / 'serve.json'}"

    codes = [
        call(["tokens", "create", "ci", "--role", "operator", "--days", "30", file, "--output", "json"]),
        call(["tokens", "list", file, "--output", "json"]),
        call(["tokens", "revoke", "ci", file, "--output", "json"]),
        call(["tokens", "revoke", "ci", file, "--output", "json"]),
    ]

    decoder, text, documents = json.JSONDecoder(), capsys.readouterr().out, []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:]
    made, listed, _, unknown = documents
    assert codes == [0, 0, 0, 2]
    assert made["token"].startswith("hr_")
    assert [(one["name"], one["role"], one["is_valid"]) for one in listed] == [("ci", "operator", True)]
    assert unknown["error"]["code"] == "SERVE.NO_TOKEN"


def test_a_session_ends_with_its_token_and_has_its_role_of_now(busy_shop, served):
    browser = served(busy_shop)
    now = busy_shop.clock.seconds()
    browser.token = browser.tokens.add("ann", Role.OPERATOR, now)
    browser.sign_in()

    first = browser.call("/api/v1/me").json
    browser.tokens.revoke("ann")
    revoked = browser.call("/api/v1/me").status
    browser.tokens.add("ann", Role.VIEWER, now)

    assert (first["name"], first["role"]) == ("ann", "operator")
    # A new token with the same name does not open the sessions of the old one.
    assert (revoked, browser.call("/api/v1/me").status) == (401, 401)


def test_a_bearer_token_counts_and_not_the_cookie_beside_it(busy_shop, served):
    browser = served(busy_shop).sign_in()
    viewer = browser.tokens.add("eve", Role.VIEWER, busy_shop.clock.seconds())

    assert browser.call("/api/v1/me", authorization=f"Bearer {viewer}").json["role"] == "viewer"
    assert browser.call("/api/v1/me", authorization="Bearer hr_wrong").status == 401
    # A proxy may add a password of its own.
    assert browser.call("/api/v1/me", authorization="Basic eDp5").json["role"] == "admin"


def test_a_viewer_reads_everything_that_has_no_rows(busy_shop, served):
    browser = served(busy_shop)
    browser.token = browser.tokens.add("eve", Role.VIEWER, busy_shop.clock.seconds())
    browser.sign_in()

    free = {route.name for route in ROUTES if route.role is Role.VIEWER}
    read = [path for name, path in READ.items() if name in free]
    assert {browser.call(path).status for path in (*read, "/", "/p/shop", f"{P}/alerts")} == {200}
    assert {browser.call(path).status for name, path in READ.items() if name not in free} == {403}


def test_a_file_of_tokens_that_breaks_keeps_everybody_out(busy_shop, served, tmp_path):
    browser = served(busy_shop).sign_in()
    browser.tokens._path.chmod(0o644)

    answers = [browser.call(P), browser.call("/p/shop"), browser.call(P, authorization=f"Bearer {browser.token}")]

    assert {(one.status, b"orders" in one.body) for one in answers} == {(503, False)}


PROXY = ("X-Forwarded-User", ["10.0.0.5/32", "fd00::/64"], ["ann=operator", "*=viewer"])
BEHIND = addresses("10.0.0.9:8741", "https://etl.example.com")


def test_a_user_of_the_proxy_is_believed_from_the_proxy_alone(busy_shop, served):
    proxy = proxy_users(*PROXY, BEHIND)
    stranger = served(busy_shop, listen="10.0.0.9:8741", root_url="https://etl.example.com", proxy=proxy)

    def me(client, **headers):
        stranger.client = client
        answer = stranger.call("/api/v1/me", host="etl.example.com", **headers)
        return answer.status if answer.status != 200 else (answer.json["name"], answer.json["role"])

    assert me("10.0.0.5", x_forwarded_user="ann") == ("ann", "operator")
    assert me("10.0.0.5", x_forwarded_user="eve") == ("eve", "viewer")
    assert me("::ffff:10.0.0.5", x_forwarded_user="ann") == ("ann", "operator")
    assert me("fd00::1", x_forwarded_user="ann") == ("ann", "operator")
    for client in ("10.0.0.6", "127.0.0.1", "fd01::1", "", "x"):
        assert me(client, x_forwarded_user="ann") == 401
    for name in ("", "a b", "<b>", "ann,eve", "*"):
        assert me("10.0.0.5", x_forwarded_user=name) == 401
    assert me("10.0.0.5") == 401
    # A program has its token, also through the proxy.
    assert me("10.0.0.5", x_forwarded_user="eve", authorization=f"Bearer {stranger.token}") == ("admin", "admin")
    assert me("10.0.0.5", x_forwarded_user="ann", authorization="Bearer hr_wrong") == 401


def test_a_page_of_another_site_does_not_write_through_the_proxy(busy_shop, served):
    proxy = proxy_users(*PROXY, BEHIND)
    browser = served(busy_shop, listen="10.0.0.9:8741", root_url="https://etl.example.com", proxy=proxy)
    browser.client = "10.0.0.5"
    ours = {"host": "etl.example.com", "x_forwarded_user": "ann", "content_type": "application/json"}

    statuses = [
        browser.call(f"{P}/updates", "POST", b"{}", **ours, **headers).status
        for headers in (
            {},
            {"sec_fetch_site": "cross-site"},
            {"origin": "https://etl.example.com"},
            {"sec_fetch_site": "same-origin"},
        )
    ]

    assert statuses == [403, 403, 403, 503]


@pytest.mark.parametrize(
    ("header", "networks", "users", "root_url"),
    [
        ("X-User", ["10.0.0.5/32"], ["ann=operator"], None),
        (None, ["10.0.0.5/32"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", [], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["10.0.0.5/32"], [], "https://etl.example.com"),
        ("Cookie", ["10.0.0.5/32"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["127.0.0.1/32"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["::1/128"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["0.0.0.0/0"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["126.0.0.0/7"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["proxy"], ["ann=operator"], "https://etl.example.com"),
        ("X-User", ["10.0.0.5/32"], ["ann=root"], "https://etl.example.com"),
        ("X-User", ["10.0.0.5/32"], ["=admin"], "https://etl.example.com"),
    ],
)
def test_a_proxy_that_others_could_pretend_to_be_is_refused(header, networks, users, root_url):
    with pytest.raises(PipelineError) as caught:
        proxy_users(header, networks, users, addresses("127.0.0.1:8741", root_url))

    assert caught.value.code == "SERVE.PROXY"
    assert proxy_users(None, [], [], addresses("127.0.0.1:8741")) is None
