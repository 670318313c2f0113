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


def test_an_environment_variable_overrides_a_secret_file(secrets):
    assert secrets.get("db-prod", "pass.word") == "from variable"


def test_the_keyring_is_used_when_no_variable_or_file_has_the_secret(tmp_path):
    secrets = Secrets(ENVIRON, tmp_path, lambda scope, key: f"{key} of {scope}")

    assert secrets.get("mail", "token") == "token of mail"
    assert secrets.get("db-prod", "pass.word") == "from variable"
    assert secrets.redact("token of mail") == "[REDACTED]"


def test_the_last_line_break_of_a_secret_file_is_ignored(secrets):
    assert secrets.get("db-prod", "user") == "alice"


def test_scopes_and_keys_are_listed_from_variables_and_files(secrets):
    assert secrets.scopes() == ("db-prod", "kafka", "mail")
    assert secrets.list("db-prod") == ("pass.word", "user")
    assert (secrets.list("kafka"), secrets.list("mail"), secrets.list("none")) == (("key",), ("token",), ())


def test_the_error_for_a_missing_secret_names_the_variable_and_the_file(secrets, tmp_path):
    with pytest.raises(PipelineError) as raised:
        secrets.get("mail", "pass-word")

    assert raised.value.code == "SECRET.NOT_FOUND"
    assert "HEADRACE_SECRET_MAIL_PASS_WORD" in raised.value.hint
    assert f"{tmp_path}/mail/pass-word" in raised.value.hint


@pytest.mark.parametrize(("scope", "key"), [("..", "x"), ("kafka", "../stray"), ("", "stray"), ("kafka", ".hidden")])
def test_a_file_outside_its_scope_folder_is_not_read(secrets, scope, key):
    with pytest.raises(PipelineError) as raised:
        secrets.get(scope, key)

    assert raised.value.code == "SECRET.NOT_FOUND"


def test_only_requested_secrets_are_known_values(secrets):
    assert secrets.known_values() == frozenset()

    secrets.get("kafka", "key")

    assert secrets.known_values() == {"k"}


@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=4))
def test_every_requested_secret_is_redacted(values):
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
def test_overlapping_secrets_are_redacted_completely(values, text, redacted):
    secrets = Secrets({})
    for value in values:
        secrets.register(value)

    assert secrets.redact(text) == redacted


def test_escaped_forms_of_a_secret_are_redacted():
    value = 'p"a\\s/s w\u00f6rd'
    secrets = Secrets({"HEADRACE_SECRET_A_B": value})
    secrets.get("a", "b")

    assert secrets.redact(f"<{json.dumps(value)}|{quote(value, safe='')}>") == '<"[REDACTED]"|[REDACTED]>'


def test_the_repr_of_secrets_hides_their_values(secrets):
    secrets.get("kafka", "key")

    assert (repr(secrets), repr(DbUtils(secrets))) == ("Secrets()", "dbutils")


def test_references_are_resolved_in_every_syntax(secrets):
    text = "${secret:kafka/key} {{secrets/kafka/key}} {{ secrets/kafka/key }} ${env:OTHER} ${plain} {{other}}"

    assert resolve(text, secrets, ENVIRON) == "k k k o ${plain} {{other}}"


def test_a_reference_inside_a_secret_value_is_not_resolved():
    secrets = Secrets({"HEADRACE_SECRET_A_B": "${env:OTHER}"})

    assert resolve("${secret:a/b}", secrets, ENVIRON) == "${env:OTHER}"


def test_the_value_of_an_environment_variable_is_redacted_unless_it_is_short():
    secrets = Secrets({})
    resolve("${env:LONG} ${env:SHORT}", secrets, {"LONG": "private", "SHORT": "dev"})

    assert secrets.redact("a private dev") == "a [REDACTED] dev"


@pytest.mark.parametrize("text", ["${secret:}", "${secret:a}", "${secret:/b}", "{{secrets/a}}"])
def test_an_incomplete_secret_reference_is_refused(secrets, text):
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
def test_dbutils_refuses_unsupported_modules_by_name(secrets, name):
    with pytest.raises(PipelineError) as raised:
        getattr(DbUtils(secrets), name)

    assert (raised.value.code, raised.value.params["what"]) == ("UNSUPPORTED.DBUTILS", f"dbutils.{name}")
    assert raised.value.hint


def test_dbutils_library_ignores_restart_python_and_refuses_installs(secrets):
    DbUtils(secrets).library.restartPython()

    with pytest.raises(PipelineError) as raised:
        DbUtils(secrets).library.installPyPI("x")

    assert raised.value.params["what"] == "dbutils.library.installPyPI"


def test_dbutils_secrets_refuses_unsupported_methods_by_name(secrets):
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
def test_every_line_of_a_multiline_secret_is_redacted(text, expected):
    secrets = Secrets({"HEADRACE_SECRET_API_PEM": PEM})
    secrets.get("api", "pem")

    assert secrets.redact(text) == expected


def test_the_base64_form_of_a_secret_is_redacted():
    secrets = Secrets({"HEADRACE_SECRET_API_KEY": "a private key"})
    secrets.get("api", "key")

    assert secrets.redact("key: YSBwcml2YXRlIGtleQ==") == "key: [REDACTED]"
