"""Lineage in the settings: where events are sent, with references to secrets."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.settings.lineage_settings import LineageFile, LineageServer
from headrace.settings.load import load_settings
from headrace.settings.secrets import Secrets

TEXT = """\
name: shop
lineage:
  namespace: analytics
  every: 5m
  transports:
    lake: {file: lineage/events.jsonl}
    marquez:
      http: "https://${env:HOST}/"
      headers: {X-Team: shop, X-Api-Key: "{{secrets/lineage/key}}"}
      api_key: "${secret:lineage/token}"
profiles:
  dev: {lineage: {}}
"""


def settings(folder, text, profile=None):
    (folder / "pipeline.yml").write_text(text)
    return load_settings(folder / "pipeline.yml", profile=profile, environ={})


def test_transports_are_read_and_their_secrets_stay_references_until_they_are_needed(tmp_path):
    lineage = settings(tmp_path, TEXT).lineage
    secrets = Secrets({"HEADRACE_SECRET_LINEAGE_KEY": "k3y-of-mine", "HEADRACE_SECRET_LINEAGE_TOKEN": "t0k3n"})

    lake, marquez = lineage.transports
    resolved = marquez.resolved(secrets, {"HOST": "marquez.example.com"})

    assert (lineage.namespace_of("p"), lineage.every_s) == ("analytics", 300)
    assert lake.target == LineageFile(tmp_path / "lineage" / "events.jsonl")
    headers = {"X-Team": "shop", "X-Api-Key": "k3y-of-mine"}
    assert resolved.target == LineageServer("https://marquez.example.com/", headers, "t0k3n")
    assert "t0k3n" not in repr(resolved)
    assert "k3y" not in repr(resolved)
    assert secrets.redact("https://marquez.example.com/ k3y-of-mine") == "[REDACTED] [REDACTED]"


def test_lineage_is_off_unless_it_has_transports(tmp_path):
    off, in_profile = settings(tmp_path, "name: shop\n"), settings(tmp_path, TEXT, "dev")

    assert off.lineage.transports == in_profile.lineage.transports == ()
    assert off.lineage.every_s == 600
    assert off.lineage.namespace_of(off.id) == f"headrace://{off.id}"


WRONG = {
    "namespace: ' '": "lineage.namespace",
    "namespace: '${env:X}'": "lineage.namespace",
    "every: soon": "lineage.every",
    "every: 0s": "lineage.every",
    "transports: {t: {}}": "lineage.transports.t",
    "transports: {t: {file: a, http: 'http://h'}}": "lineage.transports.t",
    "transports: {t: {file: 's3://lake/x'}}": "lineage.transports.t.file",
    "transports: {t: {file: folder/}}": "lineage.transports.t.file",
    "transports: {t: {file: '${secret:a/b}'}}": "lineage.transports.t.file",
    "transports: {t: {file: a, api_key: '${secret:a/b}'}}": "lineage.transports.t.api_key",
    "transports: {t: {http: 'kafka://h'}}": "lineage.transports.t.http",
    "transports: {t: {http: 'http://['}}": "lineage.transports.t.http",
    "transports: {t: {http: 'http://u:CANARY@h'}}": "lineage.transports.t.http",
    "transports: {t: {http: 'http://h?token=CANARY'}}": "lineage.transports.t.http",
    "transports: {t: {http: 'http://h', api_key: CANARY}}": "lineage.transports.t.api_key",
    "transports: {t: {http: 'http://h', headers: {X-Token: CANARY}}}": "lineage.transports.t.headers.X-Token",
    "transports: {t: {http: 'http://h', headers: {'a b': c}}}": "lineage.transports.t.headers.a b",
    "transports: {t: {http: 'http://h', headers: {a: ü}}}": "lineage.transports.t.headers.a",
    "transports: {t: {http: 'http://h', headers: {Host: h}}}": "lineage.transports.t.headers.Host",
    "transports: {t: {http: 'http://h', api_key: '${env:K}', headers: {authorization: '${env:K}'}}}": (
        "lineage.transports.t.headers"
    ),
}


@pytest.mark.parametrize(("text", "key"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_wrong_is_refused_by_name_and_no_secret_is_shown(tmp_path, text, key):
    with pytest.raises(Problems) as raised:
        settings(tmp_path, f"name: shop\nlineage:\n  {text}\n")

    (problem,) = raised.value
    assert (problem.code, problem.params["key"]) == ("SETTINGS.WRONG_VALUE", key)
    assert problem.location.line == 3
    assert "CANARY" not in str(problem.to_json())
