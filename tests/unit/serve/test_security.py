"""Nothing gets in without the token, from another name or page; and nothing that is shown can run."""

from __future__ import annotations

import logging
import re
from html import escape
from html.parser import HTMLParser
from urllib.parse import quote, unquote

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.serve.attacked_shop import ATTACKS, SECTIONS, attacked_paths, attacked_shop
from tests.unit.serve.conftest import FAILURE, HOST, definitions
from tests.unit.serve.test_api import P

from headrace.errors import PipelineError
from headrace.events.types import FlowStateChanged, UpdateStateChanged
from headrace.model.outcome import FlowState, UpdateState
from headrace.serve.addresses import addresses
from headrace.serve.guard import ANSWER_HEADERS, MAX_BODY_BYTES
from headrace.serve.sessions import Sessions, Tries

PAGES = ("/", "/help", "/p/shop", *(f"/p/shop/{name}" for name in SECTIONS), "/p/shop/d/orders", "/p/shop/f/orders")


class Reader(HTMLParser):
    """What a browser would run or load: elements, handlers, styles, and where links lead."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.attributes, self.links = set(), set(), []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "action"):
                self.links.append(value)


def test_without_a_token_only_the_page_for_signing_in_is_shown(busy_shop, served):
    stranger = served(busy_shop)

    answers = [stranger.call(path) for path in PAGES]
    programs = [stranger.call(path) for path in ("/.json", "/p/shop.json", "/api/v1/pipelines/shop/events")]

    assert {(one.status, one.headers["location"].partition("=")[0]) for one in answers} == {(303, "/login?next")}
    assert {(one.status, one.headers["www-authenticate"]) for one in programs} == {(401, "Bearer")}
    assert not any(b"orders" in one.body for one in (*answers, *programs))
    assert stranger.call("/healthz").body == b"ok\n"
    assert "Sign in" in stranger.call("/login").text


def test_the_token_opens_a_session_or_comes_with_each_request(busy_shop, served):
    stranger = served(busy_shop)

    login = stranger.call(f"/login?token={stranger.token}&next=/p/shop/graph")
    bearer = stranger.call("/p/shop.json", authorization=f"Bearer {stranger.token}")

    assert (login.status, login.headers["location"]) == (303, "/p/shop/graph")
    cookie = login.headers["set-cookie"].lower()
    assert cookie.startswith("headrace-8741=")
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= {part.strip() for part in cookie.split(";")}
    assert "secure" not in cookie
    assert bearer.json["name"] == "shop"
    browser = stranger.sign_in()
    assert browser.call("/p/shop").status == 200
    browser.call("/logout", "POST", sec_fetch_site="same-origin")
    assert browser.call("/p/shop").status == 303


def test_over_https_the_cookie_belongs_to_the_host_alone(busy_shop, served):
    stranger = served(busy_shop, listen="0.0.0.0:8741", root_url="https://etl.example.com")

    login = stranger.call(f"/login?token={stranger.token}", host="etl.example.com")

    assert login.headers["set-cookie"].startswith("__Host-headrace=")
    assert "; secure" in login.headers["set-cookie"].lower()
    assert stranger.call("/login").status == 421


def test_the_form_takes_the_token_from_our_own_page_alone(busy_shop, served):
    stranger = served(busy_shop)
    body = f"token={stranger.token}&next=%2F%2Fevil.example".encode()
    ours = {"sec_fetch_site": "same-origin", "origin": f"http://{HOST}"}

    accepted = stranger.call("/login", "POST", body, **ours)
    refused = [
        stranger.call("/login", "POST", body, **headers)
        for headers in (
            {},
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "null", "sec_fetch_site": "cross-site"},
            {"origin": "http://127.0.0.1:3000", "sec_fetch_site": "same-site"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-origin", "origin": "http://evil.example"},
        )
    ]

    # Browsers send this for a form of a page without referrer.
    assert stranger.call("/login", "POST", body, sec_fetch_site="same-origin", origin="null").status == 303
    # What leads elsewhere leads home.
    assert (accepted.status, accepted.headers["location"]) == (303, "/")
    assert {one.status for one in refused} == {403}
    assert stranger.call("/login", "POST", b"token=" + b"x" * 10_000, **ours).status == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8741", "127.0.0.1:9999", "127.0.0.1", "", None])
def test_another_host_name_gets_no_answer(browser, host):
    answer = browser.call("/p/shop", host=host)

    assert (answer.status, b"orders" in answer.body) == (421, False)


def test_a_link_in_a_file_signs_in_without_a_redirect_that_browsers_send_no_cookie_with(busy_shop, served):
    stranger = served(busy_shop)
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}

    answer = stranger.call(f"/login?token={stranger.token}&next=/p/shop", **link)

    assert (answer.status, "set-cookie" in answer.headers) == (200, True)
    assert '<meta http-equiv="refresh" content="0; url=/p/shop">' in answer.text
    assert stranger.token not in answer.text


def test_names_of_this_machine_are_answered(browser):
    assert {browser.call("/p/shop", host=host).status for host in (HOST, "localhost:8741", "LOCALHOST:8741")} == {200}


def test_pages_of_others_cannot_use_what_the_browser_would_send(browser):
    fetched = browser.call("/p/shop.json", sec_fetch_site="same-site", sec_fetch_mode="no-cors", sec_fetch_dest="empty")
    framed = browser.call("/p/shop", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="iframe")
    link = browser.call("/p/shop", sec_fetch_site="cross-site", sec_fetch_mode="navigate", sec_fetch_dest="document")

    assert (fetched.status, framed.status, link.status) == (403, 403, 200)
    assert not any(name.startswith("access-control") for name in link.headers)


def test_other_methods_and_large_bodies_are_refused(browser):
    assert {browser.call("/p/shop", method).status for method in ("PUT", "DELETE", "OPTIONS", "TRACE")} == {405}
    assert browser.call("/p/shop", "POST", sec_fetch_site="same-origin").status == 405
    assert {browser.call("/", content_length=size).status for size in (1 << 21, "-1", "x", "9" * 5000)} == {413}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # A form or a script of another site, of another port of this machine, and of a page without an origin.
        ({"sec_fetch_site": "cross-site", "origin": "http://evil.example"}, 403),
        ({"sec_fetch_site": "same-site", "origin": "http://127.0.0.1:3000"}, 403),
        ({"sec_fetch_site": "same-site", "origin": f"http://{HOST}"}, 403),
        ({"sec_fetch_site": "cross-site", "origin": "null"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "same-origin", "origin": "http://evil.example"}, 403),
        # A browser that does not say where the page is from, and one that says it in another way.
        ({}, 403),
        ({"origin": f"http://{HOST}"}, 403),
        ({"referer": f"http://{HOST}/p/shop"}, 403),
        # A page whose name was made to lead here.
        ({"sec_fetch_site": "same-origin", "origin": "http://evil.example:8741", "host": "evil.example:8741"}, 421),
        ({"sec_fetch_site": "same-origin", "host": "127.0.0.1.nip.io:8741"}, 421),
        # What a form can send.
        ({"sec_fetch_site": "same-origin", "content_type": "text/plain"}, 415),
        ({"sec_fetch_site": "same-origin", "content_type": "application/x-www-form-urlencoded"}, 415),
        ({"sec_fetch_site": "same-origin", "content_type": "multipart/form-data; boundary=application/json"}, 415),
        ({"sec_fetch_site": "same-origin", "content_type": None}, 415),
        # Our own page; there is no queue here.
        ({"sec_fetch_site": "same-origin"}, 503),
        (
            {
                "sec_fetch_site": "same-origin",
                "origin": f"http://{HOST}",
                "content_type": "Application/JSON; charset=utf-8",
            },
            503,
        ),
    ],
)
def test_only_our_own_page_can_write_with_the_cookie(browser, headers, status):
    answer = browser.call(f"{P}/updates", "POST", b"{}", **{"content_type": "application/json", **headers})

    assert answer.status == status, answer.text
    assert answer.json["error"]["code"] in ("API.CROSS_SITE", "API.HOST", "API.CONTENT_TYPE", "SERVE.NO_QUEUE")
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 503),
        ({"sec_fetch_site": "same-origin"}, 503),
        # A page that got hold of a token.
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"authorization": "Bearer hr_wrong"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer"}, 403),
        ({"authorization": "Basic aHI6aHI="}, 403),
    ],
)
def test_programs_write_with_the_token(busy_shop, served, headers, status):
    browser = served(busy_shop)
    sent = {"content_type": "application/json", "authorization": f"Bearer {browser.token}", **headers}

    assert browser.call(f"{P}/updates", "POST", b"{}", **sent).status == status


def test_bodies_that_are_large_or_do_not_arrive_are_given_up(busy_shop, served):
    browser = served(busy_shop, body_s=0.05).sign_in()
    ours = {"sec_fetch_site": "same-origin", "content_type": "application/json"}

    answers = [
        browser.call(f"{P}/updates", "POST", b" " * (MAX_BODY_BYTES + 1), **ours),
        browser.call(f"{P}/updates", "POST", b" " * (MAX_BODY_BYTES + 1), is_whole=False, **ours),
        browser.call(f"{P}/updates", "POST", b'{"re', is_whole=False, **ours),
        browser.call("/login", "POST", b"token=", is_whole=False, sec_fetch_site="same-origin"),
    ]

    assert [answer.status for answer in answers] == [413, 413, 408, 408]
    assert {answer.headers["connection"] for answer in answers} == {"close"}
    assert [one.json["error"]["code"] for one in answers[:3]] == ["API.TOO_LARGE", "API.TOO_LARGE", "API.TOO_SLOW"]
    assert browser.call(f"{P}/updates", "POST", b" " * MAX_BODY_BYTES, **ours).status == 503


def test_every_answer_has_the_headers_that_keep_others_out(busy_shop, served):
    stranger = served(busy_shop)
    answers = [stranger.call("/p/shop"), stranger.call("/login"), stranger.call("/", host="evil")]
    answers += [stranger.sign_in().call(path) for path in (*PAGES, "/static/site.css", "/nothing", "/p/shop.json")]

    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in ANSWER_HEADERS} == dict(ANSWER_HEADERS)
    assert "unsafe" not in ANSWER_HEADERS["Content-Security-Policy"]


def test_attempts_to_sign_in_are_limited_by_address(busy_shop, served):
    stranger = served(busy_shop)

    statuses = [stranger.call("/login?token=hr_wrong").status for _ in range(5)]

    limited = stranger.call(f"/login?token={stranger.token}")
    assert (statuses, limited.status, limited.headers["retry-after"]) == ([401] * 5, 429, "60")
    # Programs with the token work meanwhile, and a program with an old one keeps nobody out.
    assert stranger.call("/.json", authorization=f"Bearer {stranger.token}").status == 200
    assert stranger.call("/.json", authorization="Bearer hr_wrong").status == 401
    busy_shop.clock.at = busy_shop.clock.at.replace(minute=busy_shop.clock.at.minute + 2)
    assert stranger.call(f"/login?token={stranger.token}").status == 303


def test_sessions_end_after_hours_and_the_oldest_makes_room():
    seconds = [0.0]
    sessions = Sessions(lambda: seconds[0])
    first = sessions.open("one")

    assert (sessions.token(first), sessions.token("x"), sessions.token("")) == ("one", None, None)
    for _ in range(1000):
        newest = sessions.open("two")
    assert (sessions.token(first), sessions.token(newest)) == (None, "two")
    seconds[0] = 12 * 3600.0
    assert sessions.token(newest) is None


def test_failed_attempts_of_many_addresses_need_bounded_memory():
    tries = Tries(lambda: 0.0)

    for number in range(20_000):
        tries.fail(f"10.0.{number // 256}.{number % 256}")

    assert len(tries._failures) == 10_000


@pytest.mark.parametrize(
    ("listen", "root_url", "code"),
    [
        ("0.0.0.0:8741", None, "SERVE.NOT_LOOPBACK"),
        ("[::]:8741", None, "SERVE.NOT_LOOPBACK"),
        ("192.168.1.5:8741", None, "SERVE.NOT_LOOPBACK"),
        ("0.0.0.0:8741", "http://etl.example.com", "SERVE.ROOT_URL"),
        ("0.0.0.0:8741", "https://etl.example.com/headrace", "SERVE.ROOT_URL"),
        ("0.0.0.0:8741", "https://ann:x@etl.example.com", "SERVE.ROOT_URL"),
        ("127.0.0.1", None, "SERVE.LISTEN"),
        ("127.0.0.1:0", None, "SERVE.LISTEN"),
        ("127.0.0.1:70000", None, "SERVE.LISTEN"),
        ("evil.example:80", None, "SERVE.LISTEN"),
    ],
)
def test_addresses_that_others_could_reach_in_clear_text_are_refused(listen, root_url, code):
    with pytest.raises(PipelineError) as caught:
        addresses(listen, root_url)

    assert caught.value.code == code


def test_addresses_of_this_machine_and_behind_https_are_taken():
    assert addresses("[::1]:8741").url == "http://[::1]:8741"
    assert addresses("127.0.0.1:80").hosts >= {"127.0.0.1", "127.0.0.1:80", "localhost"}
    assert addresses("0.0.0.0:8741", "https://ETL.example.com:443/").origins == {"https://etl.example.com"}


@pytest.fixture
def attacked(shop, served):
    """A pipeline in which every text that others choose is an attack."""
    return served(attacked_shop(shop)).sign_in()


def test_names_and_texts_of_others_are_shown_and_never_run(attacked):
    slug = attacked.call("/.json").json["pipelines"][0]["slug"]

    for path in attacked_paths(slug):
        answer = attacked.call(path)
        page = Reader(answer.text)
        assert answer.status in (200, 303, 404), path
        assert page.elements.isdisjoint({"iframe", "object", "embed", "style", "base"}), path
        assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in page.attributes), path
        assert all(re.match("/(?!/)|#[a-z-]+$", link) for link in page.links), path
        assert {link for link in page.links if link.endswith(".js")} <= {"/static/live.js", "/static/keys.js"}, path
        assert "49${" not in answer.text, path
    for name in ("alerts", "quarantine", "changes", "schedules", "savepoints", "maintenance"):
        text = attacked.call(f"/p/{slug}/{name}").text
        assert (escape(ATTACKS[0]) in text, "Not everything could be read" in text) == (True, False), name
    # Texts of plans and events, and of positions.
    counts = [attacked.call(f"/p/{slug}/{path}").text.count(escape(ATTACKS[0])) for path in ("u/u1", "f/kept")]
    assert counts[0] > 20
    assert counts[1] > 0


def test_a_page_of_a_name_of_any_text_is_reached_by_its_link_and_has_json(attacked):
    slug = attacked.call("/.json").json["pipelines"][0]["slug"]
    links = Reader(attacked.call(f"/p/{slug}").text).links

    for attack in ATTACKS:
        (path,) = {link for link in links if link == f"/p/{slug}/d/{quote(attack, safe='')}"}
        assert attacked.call(unquote(path)).status == 200
        answer = attacked.call(f"{unquote(path)}.json")
        assert answer.json["dataset"] == attack
        # Nobody may take the JSON for HTML.
        assert (answer.headers["content-type"], b"<" in answer.body) == ("application/json", False)


def test_answers_to_programs_have_texts_of_others_and_no_html(attacked):
    slug = attacked.call("/.json").json["pipelines"][0]["slug"]
    base = f"/api/v1/pipelines/{slug}"
    words = {"datasets": ("history", "schema", "expectations"), "flows": ("batches", "checkpoint", "state")}

    for attack in ATTACKS:
        for path in (f"{base}/{kind}/{attack}/{word}" for kind in words for word in words[kind]):
            answer = attacked.call(path)
            assert answer.status in (200, 404), path
            assert (answer.headers["content-type"], b"<" in answer.body) == ("application/json", False), path
    for query in ("graph?update", "events?type", "events?level"):
        answer = attacked.call(f"{base}/{query}={quote(ATTACKS[0])}")
        assert (answer.status in (404, 422), b"<" in answer.body) == (True, False), query
    metrics = attacked.call("/metrics")
    labels = [sample.labels for family in text_string_to_metric_families(metrics.text) for sample in family.samples]
    assert {one["flow"] for one in labels if "flow" in one} >= {ATTACKS[0], ATTACKS[1], ATTACKS[5]}
    assert metrics.headers["content-type"].startswith("text/plain;")
    assert attacked.call("/api/v1/alerts").json["alerts"][0]["message"] in ATTACKS


def test_secrets_are_not_shown_even_if_the_event_log_has_them(shop, served):
    secret = "s3cr3t-passw0rd-of-shop"
    (shop.root / "pipeline.yml").write_text("name: shop\nconfiguration:\n  shop.key: ${secret:shop/key}\n")
    error = {**FAILURE, "message": f"cannot log in with {secret}"}
    shop.update(
        "u1",
        *definitions(),
        FlowStateChanged("orders", "orders", FlowState.FAILED, error=error),
        UpdateStateChanged(UpdateState.FAILED, error),
    )
    browser = served(shop, environ={"HEADRACE_HOST": "here", "HEADRACE_SECRET_SHOP_KEY": secret}).sign_in()

    paths = ("/", "/p/shop", "/p/shop/u/u1", "/p/shop/f/orders", "/api/v1/pipelines/shop/events")
    answers = [browser.call(path + suffix).text for path in paths for suffix in ("", ".json")]
    answers += [browser.call(path).text for path in ("/metrics", "/api/v1/alerts", f"{P}/events?level=ERROR")]

    assert not any(secret in answer for answer in answers)
    assert any("[REDACTED]" in answer for answer in answers)


def test_the_token_is_in_no_log_and_no_page(busy_shop, served, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    browser = served(busy_shop).sign_in()

    texts = [browser.call(path).text for path in (*PAGES, f"/login?token={browser.token}x")]

    assert not any(browser.token in text for text in (*texts, caplog.text, *capsys.readouterr()))
