"""Refuses readers of ``cloudFiles`` whose options, columns and files do not work together."""

from __future__ import annotations

from headrace.autoloader.options import LoaderOptions
from headrace.autoloader.reading.conversion.arrow_types import NoArrowType, arrow_schema
from headrace.autoloader.reading.plan import ReadPlan
from headrace.autoloader.reading.text_and_binary import FIXED
from headrace.autoloader.stores.paths import normalize_path, root_of
from headrace.autoloader.tree import Tree
from headrace.errors import PipelineError
from headrace.model.ddl import JsonType


def check_plan(plan: ReadPlan, options: LoaderOptions, tree: Tree) -> None:
    """Refuse combinations that do not work for these files."""
    _check_types(plan)
    _check_fixed(plan)
    _check_move(options, tree)


def check_notifications(options: LoaderOptions, path: str) -> None:
    """Refuse notifications that the store of a path does not send, or that cannot be read."""
    if not options.notifications:
        return
    store, reason, option = root_of(path).partition(":")[0] or "file", "", "useNotifications"
    if store == "file" and options.queue_url:
        reason, option = "the kernel reports local files; queues are only for S3", "queueUrl"
    elif store == "s3" and not options.queue_url:
        reason = "Headrace creates nothing in your cloud account: set queueUrl to the bucket's queue"
    elif store not in ("file", "s3"):
        reason = f"Headrace reads notifications of local disks and S3; leave it out, and {store} is listed"
    if reason:
        value = options.queue_url if option == "queueUrl" else "true"
        raise PipelineError("AUTO_LOADER.OPTION_VALUE", option=f"cloudFiles.{option}", value=value, reason=reason)


def _check_move(options: LoaderOptions, tree: Tree) -> None:
    if options.move_to is None:
        return
    target, reason = normalize_path(options.move_to), ""
    if f"{target}/".startswith(f"{tree.base.rstrip('/')}/"):
        reason = "it is inside the folder that is read, so files would be read again"
    elif root_of(target) != root_of(tree.base):
        reason = "it must be in the same store as the source"
    if reason:
        option = "cloudFiles.cleanSource.moveDestination"
        raise PipelineError("AUTO_LOADER.OPTION_VALUE", option=option, value=options.move_to, reason=reason)


def _check_fixed(plan: ReadPlan) -> None:
    """Refuse a schema that differs from the fixed one of text or binary files."""
    fixed = FIXED.get(plan.file_format)
    if fixed is None:
        return
    fields = plan.data["fields"]
    if plan.file_format == "text" and [field["type"] for field in fields] != ["string"]:
        raise PipelineError("AUTO_LOADER.SCHEMA", reason="text files have one STRING column")
    known = {field["name"]: field["type"] for field in fixed["fields"]}
    other = next((field["name"] for field in fields if known.get(field["name"]) != field["type"]), None)
    if plan.file_format == "binaryFile" and other is not None:
        expected = ", ".join(f"{name} {kind}" for name, kind in known.items())
        raise PipelineError("AUTO_LOADER.SCHEMA", reason=f'column "{other}" is not one of {expected}')


def _check_types(plan: ReadPlan) -> None:
    for column in plan.all_columns["fields"]:
        try:
            arrow_schema({"type": "struct", "fields": [column]})
            if plan.file_format != "json" and _holds_variant(column["type"]):
                raise NoArrowType("only JSON files support VARIANT")  # noqa: TRY301 - the one place that names the column
        except NoArrowType as error:
            raise PipelineError("AUTO_LOADER.TYPE", column=column["name"], reason=str(error)) from error


def _holds_variant(kind: JsonType) -> bool:
    """Whether a type is VARIANT, or has one inside."""
    if isinstance(kind, str):
        return kind == "variant"
    inner = [field["type"] for field in kind.get("fields", ())]
    inner += [kind[side] for side in ("elementType", "keyType", "valueType") if side in kind]
    return any(map(_holds_variant, inner))
