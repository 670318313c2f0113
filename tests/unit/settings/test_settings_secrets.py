"""Secrets: where they come from, and that they go nowhere else."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.settings.dbutils import DbUtils
from headrace.settings.secrets import Secrets, resolve

ENVIRON = {"HEADRACE_SECRET_DB_PROD_PASS_WORD": "from variable", "HEADRACE_SECRETS_DIR": "x", "OTHER": "o"}


@pytest.fixture
def secrets(tmp_path):
    for name, value in {"db-prod/pass.word": "from file", "db-prod/user": "alice\n", "kafka/key": "k"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(value)
    (tmp_path / "kafka" / ".hidden").write_text("h")
    (tmp_path / "stray").write_text("s")
    return Secrets({**ENVIRON, "HEADRACE_SECRET_MAIL_TOKEN": "m"}, tmp_path)


def test_the_variable_wins_when_a_file_has_the_secret_too(secrets):
    assert secrets.get("db-prod", "pass.word") == "from variable"


def test_a_secret_is_in_the_keyring_when_no_variable_and_no_file_has_it(tmp_path):
    secrets = Secrets(ENVIRON, tmp_path, lambda scope, key: f"{key} of {scope}")

    assert secrets.get("mail", "token") == "token of mail"
    assert secrets.get("db-prod", "pass.word") == "from variable"
    assert secrets.redact("token of mail") == "[REDACTED]"


def test_a_file_s_last_line_break_is_no_part_of_the_secret(secrets):
    assert secrets.get("db-prod", "user") == "alice"


def test_scopes_and_keys_come_from_both_places(secrets):
    assert secrets.scopes() == ("db-prod", "kafka", "mail")
    assert secrets.list("db-prod") == ("pass.word", "user")
    assert (secrets.list("kafka"), secrets.list("mail"), secrets.list("none")) == (("key",), ("token",), ())


def test_both_places_are_named_when_a_secret_is_not_there(secrets, tmp_path):
    with pytest.raises(PipelineError) as raised:
        secrets.get("mail", "pass-word")

    assert raised.value.code == "SECRET.NOT_FOUND"
    assert "HEADRACE_SECRET_MAIL_PASS_WORD" in raised.value.hint
    assert f"{tmp_path}/mail/pass-word" in raised.value.hint


@pytest.mark.parametrize(("scope", "key"), [("..", "x"), ("kafka", "../stray"), ("", "stray"), ("kafka", ".hidden")])
def test_no_file_outside_of_its_scope_is_read(secrets, scope, key):
    with pytest.raises(PipelineError) as raised:
        secrets.get(scope, key)

    assert raised.value.code == "SECRET.NOT_FOUND"


def test_only_what_was_handed_out_is_known(secrets):
    assert secrets.known_values() == frozenset()

    secrets.get("kafka", "key")

    assert secrets.known_values() == {"k"}


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=4))
def test_no_value_is_left_in_a_text_once_it_was_handed_out(values):
    environ = {f"HEADRACE_SECRET_S_{number}": value for number, value in enumerate(values)}
    secrets = Secrets(environ)
    text = " ".join(secrets.get("s", str(number)) for number in range(len(values)))

    assert secrets.redact(text).replace("[REDACTED]", "").strip() == ""


@pytest.mark.parametrize(
    ("values", "text", "redacted"),
    [
        (["ab", "abc"], "x abc ab", "x [REDACTED] [REDACTED]"),
        (["abc", "bcd"], "x abcd y", "x [REDACTED] y"),
        (["first", "RED"], "first", "[REDACTED]"),
        (["aa"], "aaa", "[REDACTED]"),
    ],
)
def test_nothing_is_left_of_values_that_overlap(values, text, redacted):
    secrets = Secrets({})
    for value in values:
        secrets.register(value)

    assert secrets.redact(text) == redacted


def test_a_value_is_replaced_where_it_is_escaped():
    value = 'p"a\\s/s w\u00f6rd'
    secrets = Secrets({"HEADRACE_SECRET_A_B": value})
    secrets.get("a", "b")

    assert secrets.redact(f"<{json.dumps(value)}|{quote(value, safe='')}>") == '<"[REDACTED]"|[REDACTED]>'


def test_the_repr_shows_nothing(secrets):
    secrets.get("kafka", "key")

    assert (repr(secrets), repr(DbUtils(secrets))) == ("Secrets()", "dbutils")


def test_references_are_replaced_in_every_spelling(secrets):
    text = "${secret:kafka/key} {{secrets/kafka/key}} {{ secrets/kafka/key }} ${env:OTHER} ${plain} {{other}}"

    assert resolve(text, secrets, ENVIRON) == "k k k o ${plain} {{other}}"


def test_a_value_is_not_looked_into_when_it_holds_a_reference():
    secrets = Secrets({"HEADRACE_SECRET_A_B": "${env:OTHER}"})

    assert resolve("${secret:a/b}", secrets, ENVIRON) == "${env:OTHER}"


def test_a_variable_is_kept_out_of_texts_unless_it_is_short():
    secrets = Secrets({})
    resolve("${env:LONG} ${env:SHORT}", secrets, {"LONG": "private", "SHORT": "dev"})

    assert secrets.redact("a private dev") == "a [REDACTED] dev"


@pytest.mark.parametrize("text", ["${secret:}", "${secret:a}", "${secret:/b}", "{{secrets/a}}"])
def test_a_reference_is_refused_when_it_names_no_secret(secrets, text):
    with pytest.raises(PipelineError) as raised:
        resolve(text, secrets, {})

    assert (raised.value.code, raised.value.params["reference"]) == ("SECRET.BAD_REFERENCE", text)


def test_dbutils_reads_secrets(secrets):
    dbutils = DbUtils(secrets)

    assert dbutils.secrets.get("kafka", "key") == "k"
    assert dbutils.secrets.getBytes(scope="kafka", key="key") == b"k"
    assert [item.key for item in dbutils.secrets.list("db-prod")] == ["pass.word", "user"]
    assert [item.name for item in dbutils.secrets.listScopes()] == ["db-prod", "kafka", "mail"]


@pytest.mark.parametrize("name", ["fs", "widgets", "notebook", "jobs", "data", "anything"])
def test_dbutils_refuses_the_rest_by_name(secrets, name):
    with pytest.raises(PipelineError) as raised:
        getattr(DbUtils(secrets), name)

    assert (raised.value.code, raised.value.params["what"]) == ("UNSUPPORTED.DBUTILS", f"dbutils.{name}")
    assert raised.value.hint


def test_dbutils_has_nothing_to_restart_and_installs_nothing(secrets):
    DbUtils(secrets).library.restartPython()

    with pytest.raises(PipelineError) as raised:
        DbUtils(secrets).library.installPyPI("x")

    assert raised.value.params["what"] == "dbutils.library.installPyPI"


def test_dbutils_secrets_refuses_the_rest_by_name(secrets):
    with pytest.raises(PipelineError) as raised:
        DbUtils(secrets).secrets.put("a", "b")

    assert raised.value.params["what"] == "dbutils.secrets.put"


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEFAASC\nBKcw==\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cannot sign with MIIEvQIBADANBgkq", "cannot sign with [REDACTED]"),
        ("the last line is BKcw==", "the last line is [REDACTED]"),
        ("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw==", "[REDACTED]"),
        ("-----BEGIN PRIVATE KEY----- is missing", "-----BEGIN PRIVATE KEY----- is missing"),
        ("in JSON \\nMIIEvQIBADANBgkq\\n and in a URL BKcw%3D%3D", "in JSON \\n[REDACTED]\\n and in a URL [REDACTED]"),
        ("cut off in MIIEvQIB ...", "cut off in [REDACTED] ..."),
        ("cut off in hkiG9w0BA", "cut off in [REDACTED]"),
    ],
)
def test_a_secret_of_several_lines_is_kept_out_of_texts_with_each_of_its_lines(text, expected):
    secrets = Secrets({"HEADRACE_SECRET_API_PEM": PEM})
    secrets.get("api", "pem")

    assert secrets.redact(text) == expected


def test_the_base64_form_of_a_secret_is_kept_out_of_texts():
    secrets = Secrets({"HEADRACE_SECRET_API_KEY": "a private key"})
    secrets.get("api", "key")

    assert secrets.redact("key: YSBwcml2YXRlIGtleQ==") == "key: [REDACTED]"
