"""Forms of pages: each is a request of the API, is done once, and is refused if it is not from our own page."""

from __future__ import annotations

import re

import pytest
from tests.unit.project.test_requests import until
from tests.unit.serve.conftest import plain
from tests.unit.serve.form_sending import FORM, form_of, forms_of, send
from tests.unit.serve.test_api import P
from tests.unit.serve.test_writes import calls, taking

from headrace.serve.roles import Role


def ended(browser, answer):
    """The report of the request of a form that was accepted, once it has ended."""
    assert answer.status == 303, answer.text
    request_id = re.search(r"(?:request=|/requests/)([\w.-]+)$", answer.headers["location"])[1]
    url = f"{P}/requests/{request_id}"
    until(lambda: browser.call(url).json["ended_at"] is not None)
    return browser.call(url).json


def test_a_form_is_a_request_of_the_api_and_leads_back_with_what_came_of_it(busy_shop, served):
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        answer = send(browser, form)
        report = ended(browser, answer)
        page = browser.call(answer.headers["location"])
        listed = browser.call("/p/shop/requests")

    assert (report["verb"], report["user"], report["state"]) == ("run", "admin", "COMPLETED")
    assert calls(busy_shop) == [["run", "--cause=API_CALL", f"--request-id={report['id']}"]]
    assert answer.headers["location"] == f"/p/shop?request={report['id']}"
    assert "Run an update. It is done." in plain(page.text)
    assert f'href="/p/shop/requests/{report["id"]}"' in listed.text


def test_a_form_that_is_sent_twice_is_done_once(busy_shop, served):
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        first, second = send(browser, form), send(browser, form)
        ended(browser, second)
        other = form_of(browser, "/p/shop", "start_update")

    assert first.headers["location"] == second.headers["location"]
    assert len(calls(busy_shop)) == 1
    assert form["fields"]["key"] != other["fields"]["key"]


def test_a_form_is_refused_unless_our_own_page_has_sent_it(busy_shop, served):
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        own = "http://127.0.0.1:8741"
        answers = [
            send(browser, form, sec_fetch_site="cross-site", origin="https://evil.example"),
            send(browser, form, sec_fetch_site="same-site", origin="http://127.0.0.1:9000"),
            send(browser, form, sec_fetch_site="none", origin=None),
            send(browser, form, origin="https://evil.example"),
            send(browser, form, sec_fetch_site=None, origin=None),
            send(browser, form, sec_fetch_site=None, origin="null"),
            send(browser, form, sec_fetch_site=None, origin=own, more={"form_token": ""}),
            send(browser, form, {"form_token": "0" * 64}),
            send(browser, {**form, "fields": {}}),
            # A program has the API, and a page of others cannot make a browser send a token.
            send(browser, form, authorization=f"Bearer {browser.token}", sec_fetch_site=None, origin=None),
            send(browser, form, content_type="text/plain"),
            send(browser, form, content_type="application/json"),
            send(browser, form, {"key": ""}),
            send(browser, form, {"key": ["a", "b"]}),
        ]
        assert calls(busy_shop) == []
        # An older browser does not say from which site it comes.
        assert send(browser, form, sec_fetch_site=None, origin=own).status == 303

    assert [answer.status for answer in answers] == [403] * 10 + [400] * 4
    assert all("set-cookie" not in answer.headers for answer in answers)


def test_the_form_of_another_session_is_refused(busy_shop, served):
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        browser.call("/logout", "POST", sec_fetch_site="same-origin")
        signed_out = send(browser, form)
        browser.sign_in()
        other_session = send(browser, form)

    # What was sent is not sent again.
    assert (signed_out.status, signed_out.headers["location"]) == (303, "/login?next=%2F")
    assert (other_session.status, calls(busy_shop)) == (403, [])
    assert "SERVE.FORM_TOKEN" in other_session.text
    assert "What to do:" in other_session.text


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
def test_a_button_says_which_role_it_needs_and_its_form_is_refused(busy_shop, served, role):
    with taking(busy_shop, served) as browser:
        browser.token = browser.tokens.add("ann", role, busy_shop.clock.seconds())
        browser.sign_in()
        form = form_of(browser, "/p/shop", "start_update")
        page = plain(browser.call("/p/shop").text)
        answer = send(browser, form)

    is_allowed = role is Role.OPERATOR
    assert (form["is_disabled"], answer.status) == ((False, 303) if is_allowed else (True, 403))
    assert ("Needs the role operator; yours is viewer." in page) is not is_allowed
    assert is_allowed or "API.FORBIDDEN" in answer.text


def test_a_read_only_server_shows_no_button_and_refuses_forms(busy_shop, served):
    form = form_of(served(busy_shop).sign_in(), "/p/shop", "start_update")
    browser = served(busy_shop, is_read_only=True).sign_in()

    page, answer = browser.call("/p/shop").text, send(browser, form)

    assert (forms_of(page, "start_update"), answer.status) == ([], 403)
    assert ">read-only<" in page
    assert "SERVE.READ_ONLY" in answer.text


def test_what_clears_rows_needs_the_name_of_the_pipeline(busy_shop, served):
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        wrong = [send(browser, form, {"full_refresh": "orders", "confirm": text}) for text in ("", "Shop", "shop x")]
        right = send(browser, form, {"full_refresh": "orders", "confirm": " shop "})
        ended(browser, right)

    assert [(answer.status, "SERVE.NOT_CONFIRMED" in answer.text) for answer in wrong] == [(422, True)] * 3
    assert [words[-1] for words in calls(busy_shop)] == ["--full-refresh=orders"]


def test_a_form_leads_to_pages_of_its_pipeline_alone(busy_shop, served):
    backs = ("https://evil.example", "//evil.example", "/login", "/p/shopper", "/p/shop/../../login", "\\evil", "")
    with taking(busy_shop, served) as browser:
        form = form_of(browser, "/p/shop", "start_update")
        goals = [send(browser, form, {"back": back}).headers["location"] for back in backs]

    assert all(re.fullmatch(r"/p/shop\?request=form-\w+", goal) for goal in goals[:4])
    assert goals[5].startswith("/p/shop?request=")
    assert goals[6].startswith("/p/shop/requests/form-")
    assert not any("evil" in goal or "login" in goal for goal in goals)


@pytest.mark.parametrize("operation", ["nothing", "me", "openapi", "pipelines"])
def test_only_what_writes_has_a_form(browser, operation):
    answer = send(browser, {"action": f"/p/shop/forms/{operation}", "fields": {}})

    assert answer.status == 404


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 403),
        (b"%", 403),
        (b"\xff=\xff", 400),
        (b"form_token=%ff", 400),
        (b"a=&" * 5000, 400),
        (b"form_token=a&form_token=b", 400),
        (b"a" * (1 << 20) + b"a", 413),
    ],
)
def test_damaged_and_large_forms_are_refused(browser, content, status):
    answer = browser.call("/p/shop/forms/start_update", "POST", content, **FORM)

    assert answer.status == status
    assert status == 413 or "What to do:" in answer.text


def test_a_form_takes_no_field_that_the_api_does_not_take(busy_shop, served):
    with taking(busy_shop, served) as browser:
        wrong = [{"accept_data_loss": "true"}, {"refresh": "a\x07b"}, {"continuous": "yes"}, {"refresh": ["a"] * 51}]
        answers = [send(browser, form_of(browser, "/p/shop", "start_update"), fields) for fields in wrong]

    assert [(answer.status, "API.FIELD" in answer.text) for answer in answers] == [(422, True)] * 4
    assert calls(busy_shop) == []


def test_a_request_that_failed_says_why_with_what_to_do(busy_shop, served):
    (busy_shop.root / "code").write_text("1")
    with taking(busy_shop, served) as browser:
        answer = send(browser, form_of(browser, "/p/shop/maintenance", "maintain"))
        report = ended(browser, answer)
        page = plain(browser.call(f"/p/shop?request={report['id']}").text)
        own = browser.call(f"/p/shop/requests/{report['id']}").text
        unknown = [browser.call(path).status for path in ("/p/shop?request=no", "/p/shop/requests/no")]

    assert report["state"] == "FAILED"
    assert "Maintain tables: dry run. It failed." in page
    assert "LEASE.HELD held" in page
    assert "LEASE.HELD" in own
    assert unknown == [200, 404]
