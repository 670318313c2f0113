"""Decodes payloads in the wire format of Confluent's registry: a zero byte, the writer schema's id, the Avro record.

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
from headrace.sources.confluent_schema import with_references, without_unsupported_logical_types

# Prefixes of error texts, by which they are recognised within Spark's own texts.
PAYLOAD_MARK = "headrace.confluent: "
UNAVAILABLE_MARK = "headrace.registry: "
_MAGIC = b"\x00"
_HEAD_BYTES = 5
_NOT_FOUND = 404
# By default, the client waits forever. With these, it retries once after 10 s.
_CLIENT_TIMEOUTS = {"timeout": 10, "max.retries": 1}


class BadPayload(ValueError):
    """A payload that cannot be decoded; the text says why, and contains nothing of it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"{PAYLOAD_MARK}{reason}")


class RegistryUnavailable(Exception):
    """The registry does not answer; the text says why, without its address."""

    def __init__(self, error: BaseException) -> None:
        status = getattr(error, "http_status_code", None)
        answer = f"it responds with status {status}"
        self.reason = answer if status else f"it does not respond ({type(error).__name__})"
        super().__init__(f"{UNAVAILABLE_MARK}{self.reason}")


class Registry:
    """Schemas by id and by subject; each id is fetched once.

    Args:
        settings: of Confluent's client: ``url``, ``basic.auth.user.info`` and so on. They are secret.

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
            self._client: Any = package.SchemaRegistryClient({**_CLIENT_TIMEOUTS, **settings})
        except (ValueError, TypeError):
            # Its text may repeat a setting.
            raise PipelineError("CONFLUENT.SETTINGS") from None
        self._writers: dict[int, Any] = {}
        self._readers: dict[tuple[str, int | str], Any] = {}

    def reader_schema(self, subject: str, version: int | None, *, refresh: bool = True) -> Any:
        """The schema of a subject, with its references; the latest without a version.

        Without *refresh*, a schema that was fetched before comes from the cache.

        Raises:
            PipelineError: CONFLUENT.NO_SUBJECT, CONFLUENT.NOT_AVRO, CONFLUENT.SCHEMA, CONFLUENT.UNREACHABLE.
        """
        wanted = "latest" if version is None else version
        if not refresh and (subject, wanted) in self._readers:
            return self._readers[subject, wanted]
        try:
            found = self._fetch(subject, wanted, {})
            fastavro.parse_schema(found)
        except RegistryUnavailable as error:
            raise PipelineError("CONFLUENT.UNREACHABLE", reason=error.reason) from None
        except (SchemaParseException, UnknownType, ValueError) as error:
            reason = f"it is not valid Avro: {error}"
            raise PipelineError("CONFLUENT.SCHEMA", subject=subject, reason=reason) from None
        self._readers[subject, wanted] = found
        return found

    def writer_schema(self, schema_id: int) -> Any:
        """The parsed schema with an id.

        Raises:
            BadPayload: the registry has no such schema, or it is not Avro.
            RegistryUnavailable: the registry does not answer.
        """
        if schema_id not in self._writers:
            found = self._request(self._client.get_schema, schema_id)
            if found is None:
                raise BadPayload(f"the registry has no schema with the id {schema_id}")
            try:
                self._writers[schema_id] = fastavro.parse_schema(
                    self._with_references(found, {}), _ignore_default_error=True
                )
            except PipelineError as error:
                raise BadPayload(f"the schema with the id {schema_id} cannot be used: {error.message}") from None
            except (SchemaParseException, UnknownType, ValueError) as error:
                reason = f"the schema with the id {schema_id} is not valid Avro ({type(error).__name__})"
                raise BadPayload(reason) from None
        return self._writers[schema_id]

    def _request(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None if it was not found."""
        try:
            return method(*arguments)
        except self._error as error:
            if error.http_status_code == _NOT_FOUND:
                return None
            raise RegistryUnavailable(error) from None
        except Exception as error:  # noqa: BLE001 - the HTTP client below has its own errors
            raise RegistryUnavailable(error) from None

    def _fetch(self, subject: str, version: int | str, known: dict[str, Any]) -> Any:
        found = self._request(self._client.get_version, subject, version)
        if found is None:
            raise PipelineError("CONFLUENT.NO_SUBJECT", subject=subject, version=version)
        return self._with_references(found.schema, known)

    def _with_references(self, schema: Any, known: dict[str, Any]) -> Any:
        """The schema with its references, each defined where it is first named."""
        if (schema.schema_type or "AVRO").upper() != "AVRO":
            raise PipelineError("CONFLUENT.NOT_AVRO", kind=schema.schema_type)
        for reference in schema.references or ():
            known[reference.name] = self._fetch(reference.subject, reference.version, known)
        return with_references(without_unsupported_logical_types(json.loads(schema.schema_str)), known)


def decoder(registry: Registry, reader_schema: Any) -> Callable[[bytes], Any]:
    """A function that decodes payloads by their writer schemas, and resolves them to *reader_schema*.

    It raises BadPayload, and RegistryUnavailable if the registry does not answer. It caches ids that the registry does
    not know, so create a new one for each batch.
    """
    unknown: dict[int, BadPayload] = {}
    reader_schema = fastavro.parse_schema(reader_schema)

    def decode(payload: bytes) -> Any:
        if len(payload) < _HEAD_BYTES or payload[:1] != _MAGIC:
            raise BadPayload("it does not begin with a zero byte and a schema id")
        schema_id = int.from_bytes(payload[1:_HEAD_BYTES], "big")
        if schema_id in unknown:
            raise unknown[schema_id]
        try:
            writer_schema = registry.writer_schema(schema_id)
        except BadPayload as error:
            unknown[schema_id] = error
            raise
        rest = BytesIO(payload[_HEAD_BYTES:])
        try:
            value = fastavro.schemaless_reader(rest, writer_schema, reader_schema)
        except Exception as error:  # noqa: BLE001 - damaged bytes fail in as many ways as there are types
            kind = type(error).__name__
            reason = f"it is not a record of schema {schema_id}, or does not match the reader schema ({kind})"
            raise BadPayload(reason) from None
        if rest.read(1):
            raise BadPayload(f"it has extra bytes after the record of schema {schema_id}")
        return value

    return decode


@lru_cache(maxsize=16)
def shared_registry(settings: str) -> Registry:
    """The registry with these settings, as JSON; shared within the process, so that each schema is fetched once."""
    return Registry(json.loads(settings))
