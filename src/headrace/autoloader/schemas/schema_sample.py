"""Infer the schema of existing files from a sample of the newest, as the vendor's product does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.avro.avro_schema import parse_avro_schema
from headrace.autoloader.reading.conversion.converters import Times
from headrace.autoloader.reading.conversion.text_columns import CsvTypeInference
from headrace.autoloader.reading.splits import Split
from headrace.autoloader.reading.text_and_binary import FIXED
from headrace.autoloader.reading.xml.elements import XmlNames
from headrace.autoloader.schemas.inference import (
    JsonTypeInference,
    csv_struct,
    finalize_struct,
    json_struct,
    parquet_struct,
)
from headrace.autoloader.schemas.sample_contents import (
    SELF_DESCRIBING,
    csv_tables,
    encoding_of,
    file_schemas,
    json_blocks,
    xml_elements,
)
from headrace.autoloader.schemas.sampled_files import SAMPLE_BYTES, Sample
from headrace.autoloader.schemas.storable_columns import storable
from headrace.autoloader.schemas.xml_inference import XmlTypeInference, xml_struct
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType


def infer_schema(
    files: Sample | Sequence[Split],
    options: LoaderOptions,
    zone: str = "UTC",
    *,
    max_bytes: int = SAMPLE_BYTES,
    plain_names: bool = False,
) -> JsonType | None:
    """Infer the columns from the contents of files; None if there is no data to infer them from.

    Columns that no table can have are omitted; *plain_names* means a table without column mapping.

    Raises:
        PipelineError: ``AUTO_LOADER.FILE_COLUMN``: a file has two columns of one name; ``AUTO_LOADER.NOT_INFERRED``:
            ORC without hints; ``AUTO_LOADER.SAMPLE``, ``AUTO_LOADER.SAMPLE_BROKEN_OFF``: a file exists and cannot be
            accessed, permanently or now.
    """
    fixed = FIXED.get(options.file_format)
    if fixed is not None:
        return fixed
    if options.file_format == "orc":
        if not options.hints:
            raise PipelineError("AUTO_LOADER.NOT_INFERRED", format=options.file_format)
        return {"type": "struct", "fields": []}
    files = files if isinstance(files, Sample) else Sample(files)
    if options.file_format in SELF_DESCRIBING:
        avro = options.format_options.get("avroSchema")
        struct = parquet_struct([parse_avro_schema(avro).columns] if avro else file_schemas(files, options))
        struct = storable(struct, as_text=False, plain_names=plain_names)
        return struct if struct["fields"] else None
    typed = options.infer_types and options.format_options.get("primitivesAsString") != "true"
    struct = _INFER_BY_FORMAT[options.file_format](files, options, options.time_zone or zone, typed, max_bytes)
    if not struct["fields"]:
        return None
    # Columns of CSV are ordered; fields of JSON and XML are not.
    struct = finalize_struct(struct, typed=typed, ordered=options.file_format != "csv")
    struct = storable(struct, as_text=True, plain_names=plain_names)
    return struct if struct["fields"] else None


def _infer_csv(files: Sample, options: LoaderOptions, zone: str, typed: bool, max_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    given = options.format_options
    infer_type = (
        CsvTypeInference(Times.of(zone, given), dates=given.get("preferDate") != "false").infer if typed else _text
    )
    return csv_struct(csv_tables(files, options, encoding_of(options), max_bytes), infer_type)


def _infer_json(files: Sample, options: LoaderOptions, zone: str, typed: bool, max_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    kinds = JsonTypeInference.of(options.format_options, zone) if typed else JsonTypeInference()
    return json_struct(json_blocks(files, encoding_of(options), max_bytes, options), options.format_options, kinds)


def _infer_xml(files: Sample, options: LoaderOptions, zone: str, typed: bool, max_bytes: int) -> JsonType:  # noqa: FBT001 - as the others
    given = options.format_options
    decimals, dates = given.get("prefersDecimal") == "true", given.get("preferDate") != "false"
    kinds = XmlTypeInference(Times.of(zone, given), decimals=decimals, dates=dates) if typed else None
    return xml_struct(xml_elements(files, options, max_bytes), XmlNames.of(given), kinds)


_INFER_BY_FORMAT: Mapping[str, Callable[[Sample, LoaderOptions, str, bool, int], JsonType]] = {
    "csv": _infer_csv,
    "json": _infer_json,
    "xml": _infer_xml,
}


def _text(values: pa.Array) -> str:
    del values
    return "string"
