"""A project that contains a secret in every possible place, and a search for it in every output."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from typing import Self

MARK = "CANARY"
LINE = f"{MARK}firstline"
# Each has the mark, and what could escape it.
SECRETS = {
    "API_TOKEN": f"{MARK}-token/+ä",
    "S3_KEY": f"{MARK}-s3",
    "JAVA_OPTION": f"{MARK}-java",
    "DB_PASSWORD": f"{MARK}-db&pass",
    "HTTP_TOKEN": f"{MARK}-http",
    "KAFKA_PASSWORD": f"{MARK}-kafka",
    "API_PEM": f"-----BEGIN KEY-----\n{LINE}\n{MARK}lastline\n-----END KEY-----\n",
}
ENVIRON = {f"HEADRACE_SECRET_{name}": value for name, value in SECRETS.items()}
SETTINGS = {
    "configuration": {"my.token": "${secret:api/token}", "my.key": "${secret:api/pem}"},
    "spark_conf": {
        "spark.hadoop.fs.s3a.secret.key": "${secret:s3/key}",
        "spark.driver.extraJavaOptions": "-Dmy.option=${secret:java/option}",
    },
    "development": True,
}
CODE = """
import sys

key, token = spark.conf.get("my.key"), dbutils.secrets.get("http", "token")
login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="%s";'

dp.create_sink("posted", "http", {{"url": "{url}?token=" + token, "header.Authorization": "Bearer " + token}})
password = dbutils.secrets.get("db", "password")
dp.create_sink("stored", "jdbc", {{"url": "postgresql://user@127.0.0.1:1/db", "dbtable": "t", "password": password}})


@dp.table
def landing():
    return spark.readStream.schema("a INT").json("{landing}")


@dp.table
def signed():
    def sign(a):
        print("no signature with", key, file=sys.stderr, flush=True)
        raise ValueError("x" * 580 + f" cannot sign with {{key}}")
    return spark.readStream.table("landing").select(F.udf(sign)("a").alias("s"))


@dp.table
def planned():
    return spark.readStream.table("landing").select(
        F.raise_error(F.concat(F.lit(token), F.lit(key), "a")).cast("string").alias("s")
    )


@dp.append_flow(target="posted")
def post():
    return spark.readStream.table("landing").select("a", F.lit(token).alias("t"))


@dp.append_flow(target="stored")
def store():
    return spark.readStream.table("landing")
"""
KAFKA = """

@dp.table
def topic():
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    reader = reader.option("subscribe", "t").option("kafka.security.protocol", "SASL_PLAINTEXT")
    reader = reader.option("kafka.sasl.mechanism", "PLAIN").option("kafka.default.api.timeout.ms", "1000")
    return reader.option("kafka.sasl.jaas.config", login % dbutils.secrets.get("kafka", "password")).load()
"""
ROWS = "".join(json.dumps({"a": number}) + "\n" for number in range(3))
# What of a value that is found in a text tells it: the mark, as it stands and as others write it.
_FORMS = tuple(
    {
        MARK.encode(),
        *(base64.b64encode(value.encode()) for value in SECRETS.values()),
        *(quote(value, safe="").encode() for value in SECRETS.values()),
    }
)


def shows(data: bytes) -> bool:
    """True where a secret can be read in *data*."""
    return any(form in data for form in _FORMS)


def files_that_show(folders: Iterable[Path], since: float = 0.0) -> set[str]:
    """The files below *folders* with a secret in their name or text, of those that were changed *since*."""
    found = set()
    for folder in folders:
        for file in (Path(parent, name) for parent, _, names in os.walk(folder) for name in names):
            # A file that goes away shows nothing.
            with suppress(OSError):
                if shows(os.fsencode(file.name)) or (
                    file.is_file() and file.stat().st_mtime >= since and shows(file.read_bytes())
                ):
                    found.add(str(file.relative_to(folder)))
    return found


class CommandLines:
    """Looks at the command lines of all processes while the block runs."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self.looks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.looks += 1
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    data = file.read_bytes()
                    if shows(data):
                        self.shown.add(data.replace(b"\0", b" ").decode(errors="replace"))
