"""Plan a ``cloudFiles`` reader from its options, its path, and a schema or none."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from headrace.autoloader.checks import check_notifications, check_plan
from headrace.autoloader.globs import InvalidGlob
from headrace.autoloader.option_table import PATH_OPTIONS
from headrace.autoloader.options import RESCUED, LoaderOptions, loader_options
from headrace.autoloader.reading.column_names import can_be_column
from headrace.autoloader.reading.plan import METADATA, ReadPlan
from headrace.autoloader.schemas.apply_hints import HintMismatch, with_hints
from headrace.autoloader.schemas.inference import add_new_fields
from headrace.autoloader.schemas.partition_columns import PARTITION, partition_columns, partition_names
from headrace.autoloader.schemas.sampled_files import Sample, newest_files
from headrace.autoloader.schemas.schema_sample import infer_schema
from headrace.autoloader.schemas.schema_store import SchemaStore, SchemaVersion
from headrace.autoloader.schemas.type_widening import MODE as WIDENS
from headrace.autoloader.schemas.type_widening import widen
from headrace.autoloader.source import Source, ledgers_in, tree_of
from headrace.autoloader.stores.paths import local_path, normalize_path, replace_prefix
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType, nullable, struct_of
from headrace.model.time_zones import zone_name
from headrace.stores.paths import StoragePath


@dataclass(frozen=True)
class Place:
    """Where a stream stores its state, and what else the session determines.

    ``schema_location`` is None if no folder was given; ``can_write`` says whether anything may be written now.
    ``now_ns`` is the time, ``tasks`` the number of parallel tasks; ``paths`` maps path prefixes to their replacements.
    """

    ledgers: StoragePath
    schema_location: StoragePath | None
    now_ns: int
    time_zone: str = "UTC"
    tasks: int = 1
    can_write: bool = True
    # Whether to infer the schema again although one is stored, because this update clears the rows.
    reinfers_schema: bool = False
    # Whether the target table has no column mapping, and so takes only plain column names.
    plain_names: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)


def prepare(
    given: Mapping[str, str], path: str, schema: JsonType | None, place: Place, *, metadata: bool = False
) -> Source:
    """Plan a reader from its options, its path, and a schema or none.

    Without a schema, use the newest version in the schema location, or infer one from the existing files and store it
    as version 0. ``metadata`` says that the query names ``_metadata``.

    Raises:
        Problems: invalid options.
        PipelineError: ``AUTO_LOADER.*``: the path does not exist, or the columns cannot be determined.
    """
    given = _mapped_options(given, place.paths)
    options = loader_options(given, time_zone=place.time_zone)
    full_path = normalize_path(replace_prefix(path, place.paths))
    check_notifications(options, full_path)
    if options.schema_location is not None:
        folder = local_path(options.schema_location, "cloudFiles.schemaLocation")
        # A folder that the user named may be shared with another stream.
        place = replace(place, schema_location=Path(folder), reinfers_schema=False)
    try:
        tree = tree_of(full_path, options)
        exists = tree.store.is_folder(tree.base)
    except InvalidGlob as error:
        raise PipelineError("AUTO_LOADER.PATH_PATTERN", path=path, reason=str(error)) from error
    if not exists:
        raise PipelineError("AUTO_LOADER.PATH_MISSING", path=path)
    if options.file_format == "csv" and schema is None:
        # As in the vendor's product: if the columns are inferred, the first line names them.
        options = replace(options, format_options={"header": "true", **options.format_options})
    single = options.format_options.get("singleVariantColumn")
    if single is not None:
        if schema is not None or options.hints:
            reason = "the record is one column, so no schema or hints are allowed"
            raise PipelineError("AUTO_LOADER.OPTION_VALUE", option="singleVariantColumn", value=single, reason=reason)
        schema = struct_of([(single, "variant")])
    if schema is None:
        found = _stored_or_inferred(tree, options, place)
        columns, version, names = found.schema, found.number, set[str]()
    else:
        columns, version, names = _given_schema(schema, options), None, partition_names(tree, options)
    partitions = [f for f in columns["fields"] if PARTITION in f.get("metadata", {}) or f["name"] in names]
    data = [field for field in columns["fields"] if field not in partitions]
    corrupt = any(f["name"] == options.corrupt_column and f["type"] == "string" for f in data)
    rescued = options.rescued_column or (None if schema is not None and options.evolution_mode != "rescue" else RESCUED)
    # A field of the files with the name of the rescued data column is itself rescued.
    data = [field for field in data if rescued is None or field["name"].casefold() != rescued.casefold()]
    metadata = metadata if options.metadata is None else options.metadata
    plan = ReadPlan(
        file_format=options.file_format,
        data={"type": "struct", "fields": data},
        base=tree.base,
        partitions={"type": "struct", "fields": partitions},
        rescued_column=rescued,
        corrupt_column=options.corrupt_column if corrupt else None,
        evolves=_mode(options, schema) in ("addNewColumns", WIDENS, "failOnNewColumns"),
        # As in Spark's file sources, a data column of that name takes precedence.
        metadata=metadata and not any(field["name"].casefold() == METADATA for field in columns["fields"]),
        case_sensitive=options.case_sensitive,
        mode=options.mode,
        plain_names=place.plain_names,
        ignores_folders=options.partition_columns is not None or options.recursive,
        time_zone=zone_name(options.time_zone or place.time_zone),
        missing_files=options.missing_files,
        corrupt_files=options.corrupt_files,
        bad_records=_bad_records(options, place),
        format_options=options.format_options,
    )
    check_plan(plan, options, tree)
    ledgers = options.ledger_location and Path(local_path(options.ledger_location, "headrace.ledgerLocation"))
    return Source(
        given={name: str(value) for name, value in given.items()},
        path=full_path,
        plan=plan,
        ledgers=str(ledgers or (ledgers_in(place.schema_location) if place.schema_location else place.ledgers)),
        schema_location=str(place.schema_location) if place.schema_location and schema is None else None,
        tasks=place.tasks,
        version=version,
    )


def _mapped_options(given: Mapping[str, str], paths: Mapping[str, str]) -> Mapping[str, str]:
    places = {name.casefold() for name in PATH_OPTIONS}
    return {
        name: replace_prefix(str(text), paths) if name.casefold() in places else text for name, text in given.items()
    }


def evolve_schema(
    location: StoragePath, seen: JsonType, options: LoaderOptions, type_mismatches: AbstractSet[str]
) -> SchemaVersion | None:
    """Return the newest schema version, after adding the fields that only *seen* has; store it if it changed.

    Fields in *type_mismatches* get wider types where that is allowed. Returns None if no version is stored.
    """
    store = SchemaStore(location)
    while (latest := store.latest()) is not None:
        wider = widen(latest.schema, seen, type_mismatches, options.file_format) if type_mismatches else latest.schema
        wider = _with_hints(add_new_fields(wider, seen, repeated=options.file_format == "xml"), options)
        if wider == latest.schema:
            return latest
        if store.add(wider, latest.number + 1):
            return SchemaVersion(latest.number + 1, wider)
    return None


def _mode(options: LoaderOptions, schema: JsonType | None) -> str:
    # A schema that is not inferred does not evolve.
    found = "rescue" if options.file_format == "orc" else "addNewColumns"
    return options.evolution_mode or ("none" if schema is not None else found)


def _given_schema(schema: JsonType, options: LoaderOptions) -> JsonType:
    if options.evolution_mode in ("addNewColumns", WIDENS):
        raise PipelineError("AUTO_LOADER.GIVEN_SCHEMA_EVOLVES")
    if "avroSchema" in options.format_options:
        raise PipelineError("AUTO_LOADER.TWO_SCHEMAS")
    rescued = options.rescued_column
    fields = [field for field in nullable(schema["fields"]) if field["name"] != rescued]
    return {**schema, "fields": fields}


def _stored_or_inferred(tree: Tree, options: LoaderOptions, place: Place) -> SchemaVersion:
    store = SchemaStore(place.schema_location) if place.schema_location else None
    latest = store.latest() if store else None
    if store is not None and latest is not None and not (place.reinfers_schema or store.is_outdated):
        # Add new fields of avroSchema; as with files, no type changes.
        named = infer_schema((), options) if "avroSchema" in options.format_options else None
        schema = _with_hints(latest.schema if named is None else add_new_fields(latest.schema, named), options)
        if schema != latest.schema and place.can_write:
            store.add(schema, latest.number + 1)
            return SchemaVersion(latest.number + 1, schema)
        return SchemaVersion(latest.number, schema)
    if store is None:
        raise PipelineError("AUTO_LOADER.SCHEMA_LOCATION_MISSING")
    files = newest_files(tree, place.now_ns)
    sample = Sample(files)
    data = infer_schema(sample, options, place.time_zone, plain_names=place.plain_names)
    if data is not None:
        partitions = partition_columns(files, tree.base, options, place.time_zone)
        partitions = [field for field in partitions if can_be_column(field["name"], plain_names=place.plain_names)]
        names = {field["name"].casefold() for field in partitions}
        fields = [field for field in data["fields"] if field["name"].casefold() not in names]
        schema = _with_hints({"type": "struct", "fields": [*fields, *partitions]}, options)
    elif latest is not None:
        schema = _with_hints(latest.schema, options)
    elif sample.corrupt and not options.corrupt_files:
        path, reason = sample.corrupt[0]
        raise PipelineError("AUTO_LOADER.SAMPLE_CORRUPT", path=path, reason=reason, folder=tree.base)
    else:
        raise PipelineError("AUTO_LOADER.NOTHING_TO_INFER", path=tree.base, format=options.file_format)
    version = _next_version(store, latest, schema, can_write=place.can_write)
    if place.can_write:
        store.mark_current()
    return version


def _next_version(
    store: SchemaStore, latest: SchemaVersion | None, schema: JsonType, *, can_write: bool
) -> SchemaVersion:
    if latest is not None and latest.schema == schema:
        return latest
    number = latest.number + 1 if latest is not None else 0
    if can_write and not store.add(schema, number):
        return store.read(number)
    return SchemaVersion(number, schema)


def _with_hints(schema: JsonType, options: LoaderOptions) -> JsonType:
    try:
        return with_hints(schema, options.hints)
    except HintMismatch as error:
        hints = ", ".join(".".join(hint.path) for hint in options.hints)
        raise PipelineError(
            "AUTO_LOADER.OPTION_VALUE", option="cloudFiles.schemaHints", value=hints, reason=str(error)
        ) from error


def _bad_records(options: LoaderOptions, place: Place) -> str | None:
    """The folder for bad records: a new one for each reader, as in the vendor's product."""
    given = options.format_options.get("badRecordsPath")
    if given is None:
        return None
    made_at = datetime.fromtimestamp(place.now_ns // 1_000_000_000, tz=UTC)
    return str(Path(local_path(given, "badRecordsPath"), made_at.strftime("%Y%m%dT%H%M%S")))
