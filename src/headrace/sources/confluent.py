"""Payloads in the wire format of Confluent's registry: a zero byte, the id of the writer's schema, the Avro record.

Runs in Spark's workers: keep the imports few. Source of the format: Confluent's documentation of the wire format.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from headrace.errors import PipelineError
from headrace.sources.confluent_schema import with_references, without_other_logic

# Stands in front of what is wrong with a payload, so that it is recognised in what Spark makes of it.
PAYLOAD_MARK = "headrace.confluent: "
DOWN_MARK = "headrace.registry: "
_MAGIC = b"\x00"
_HEAD_BYTES = 5
_NOT_FOUND = 404
# The client waits without end unless it is told otherwise: for a second try after 10 s is time enough.
_PATIENCE = {"timeout": 10, "max.retries": 1}


class BadPayload(ValueError):
    """A payload that cannot be read; the text says why, and repeats nothing of it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{PAYLOAD_MARK}{reason}")


class RegistryDown(Exception):
    """The registry gives no answer; the text says why, without its address."""

    def __init__(self, error: BaseException) -> None:
        status = getattr(error, "http_status_code", None)
        answer = f"it answers with the status {status}"
        self.reason = answer if status else f"it does not answer ({type(error).__name__})"
        super().__init__(f"{DOWN_MARK}{self.reason}")


class Registry:
    """Schemas by id and by subject; each id is asked for once.

    Args:
        settings: of Confluent's client: ``url``, ``basic.auth.user.info`` and so on. Secrets.

    Raises:
        PipelineError: CONFLUENT.NO_CLIENT, CONFLUENT.SETTINGS.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        try:
            package = import_module("confluent_kafka.schema_registry")
            self._error = import_module("confluent_kafka.schema_registry.error").SchemaRegistryError
        except ImportError as error:
            raise PipelineError("CONFLUENT.NO_CLIENT") from error
        try:
            self._client: Any = package.SchemaRegistryClient({**_PATIENCE, **settings})
        except (ValueError, TypeError):
            # Its text may repeat a setting.
            raise PipelineError("CONFLUENT.SETTINGS") from None
        self._writers: dict[int, Any] = {}
        self._readers: dict[tuple[str, int | str], Any] = {}

    def reader(self, subject: str, version: int | None, *, again: bool = True) -> Any:
        """The schema of a subject, whole; the latest when no version is given.

        Without *again*, as it was when it was last asked for.

        Raises:
            PipelineError: CONFLUENT.NO_SUBJECT, CONFLUENT.NOT_AVRO, CONFLUENT.SCHEMA, CONFLUENT.UNREACHABLE.
        """
        wanted = "latest" if version is None else version
        if not again and (subject, wanted) in self._readers:
            return self._readers[subject, wanted]
        try:
            found = self._registered(subject, wanted, {})
            fastavro.parse_schema(found)
        except RegistryDown as error:
            raise PipelineError("CONFLUENT.UNREACHABLE", reason=error.reason) from None
        except (SchemaParseException, UnknownType, ValueError) as error:
            reason = f"it is none of Avro: {error}"
            raise PipelineError("CONFLUENT.SCHEMA", subject=subject, reason=reason) from None
        self._readers[subject, wanted] = found
        return found

    def writer(self, number: int) -> Any:
        """The schema with an id, parsed.

        Raises:
            BadPayload: the registry has none with this id, or it is no Avro.
            RegistryDown: it does not answer.
        """
        if number not in self._writers:
            found = self._asked(self._client.get_schema, number)
            if found is None:
                raise BadPayload(f"the registry has no schema with the id {number}")
            try:
                self._writers[number] = fastavro.parse_schema(self._whole(found, {}), _ignore_default_error=True)
            except PipelineError as error:
                raise BadPayload(f"the schema with the id {number} cannot be used: {error.message}") from None
            except (SchemaParseException, UnknownType, ValueError) as error:
                said = f"the schema with the id {number} is none of Avro ({type(error).__name__})"
                raise BadPayload(said) from None
        return self._writers[number]

    def _asked(self, question: Callable[..., Any], *words: Any) -> Any:
        """The answer, or None when there is no such thing."""
        try:
            return question(*words)
        except self._error as error:
            if error.http_status_code == _NOT_FOUND:
                return None
            raise RegistryDown(error) from None
        except Exception as error:  # noqa: BLE001 - the client of HTTP below has errors of its own
            raise RegistryDown(error) from None

    def _registered(self, subject: str, version: int | str, known: dict[str, Any]) -> Any:
        found = self._asked(self._client.get_version, subject, version)
        if found is None:
            raise PipelineError("CONFLUENT.NO_SUBJECT", subject=subject, version=version)
        return self._whole(found.schema, known)

    def _whole(self, schema: Any, known: dict[str, Any]) -> Any:
        """The schema with those in it that it refers to, each where it is named first."""
        if (schema.schema_type or "AVRO").upper() != "AVRO":
            raise PipelineError("CONFLUENT.NOT_AVRO", kind=schema.schema_type)
        for reference in schema.references or ():
            known[reference.name] = self._registered(reference.subject, reference.version, known)
        return with_references(without_other_logic(json.loads(schema.schema_str)), known)


def decoder(registry: Registry, reader: Any) -> Callable[[bytes], Any]:
    """Reads payloads, each by the schema it was written with, as *reader* has it.

    The function raises BadPayload, and RegistryDown when the registry does not answer. It remembers ids that the
    registry does not know, so make a new one for each batch.
    """
    unknown: dict[int, BadPayload] = {}
    reader = fastavro.parse_schema(reader)

    def decode(payload: bytes) -> Any:
        if len(payload) < _HEAD_BYTES or payload[:1] != _MAGIC:
            raise BadPayload("it does not begin with a zero byte and the id of a schema")
        number = int.from_bytes(payload[1:_HEAD_BYTES], "big")
        if number in unknown:
            raise unknown[number]
        try:
            writer = registry.writer(number)
        except BadPayload as error:
            unknown[number] = error
            raise
        rest = BytesIO(payload[_HEAD_BYTES:])
        try:
            value = fastavro.schemaless_reader(rest, writer, reader)
        except Exception as error:  # noqa: BLE001 - damaged bytes fail in as many ways as there are types
            kind = type(error).__name__
            said = f"it is no record of the schema {number}, or does not fit the reader's ({kind})"
            raise BadPayload(said) from None
        if rest.read(1):
            raise BadPayload(f"it goes on behind the record of the schema {number}")
        return value

    return decode


@lru_cache(maxsize=16)
def shared_registry(settings: str) -> Registry:
    """The registry with these settings, as JSON; one in a process, so that each schema is fetched once."""
    return Registry(json.loads(settings))
