"""Appends and requests in batch functions that repeat when a batch is retried."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from headrace.lint import methods
from headrace.lint.batch_code import BatchCode, batch_code
from headrace.lint.program import Program, call_arguments
from headrace.lint.rules import Violation, rule
from headrace.lint.sql_streams import name_at
from headrace.lint.sql_texts import Sql, sql_in
from headrace.lint.values import Frame, Imported, Literal, Step, Writer, method_argument, opaque, option_of, text_of

_VOLATILE = frozenset(("noop", "console", "memory"))
# PUT and DELETE are idempotent; POST is not.
_POSTING = frozenset(("requests.post", "httpx.post", "requests.Session().post", "httpx.Client().post"))
_IDEMPOTENT = re.compile("idempotency", re.IGNORECASE)
_AGAIN = "a retried batch is appended again"
_OF_LOOP = "  # rows: everything the loop writes, combined with unionByName"
# Pipeline sinks that write a batch once, or mark repeats.
_OF_PIPELINES = {
    "jdbc": "in a pipeline; it writes each batch once",
    "kafka": "in a pipeline; record headers mark repeats",
}
# Writer calls that can be passed to append_once as arguments.
_CARRIED = frozenset(("format", "mode", "option", "options", "partitionBy"))


def appends(program: Program, parts: frozenset[ast.AST]) -> Iterator[tuple[Step, Writer]]:
    """The appends inside a function."""
    for step, writer in program.facts.saved:
        if step.node not in parts or _empty(writer.frame):
            continue
        mode = text_of(method_argument(writer.steps, "mode", "mode"))
        into = step.name == "insertInto" and len(step.node.args) < 2 and "overwrite" not in step.keywords
        if mode == "append" or (into and mode is None):
            yield step, writer


def limits_to_none(step: Step) -> bool:
    """Whether a call is ``limit(0)``, which keeps only the columns."""
    return step.name == "limit" and isinstance(step.first, Literal) and step.first.value == 0


def _empty(frame: Frame) -> bool:
    """Whether a frame is known to have no rows, such as one that creates a table."""
    steps = [part.step for part in frame.lineage() if part.step is not None]
    none = any(map(limits_to_none, steps))
    made = any(
        step.name == "createDataFrame" and step.node.args and ast.unparse(step.node.args[0]) == "[]" for step in steps
    )
    return none or made


def _not_idempotent(program: Program) -> Iterator[Violation]:
    inserts = (
        [] if program.has_constant("txnVersion") else [sql for sql in sql_in(program) if sql.begins("INSERT", "INTO")]
    )
    for code in batch_code(program):
        yield from _appended(program, code, inserts)
        yield from _posted(program, code)


def _appended(program: Program, code: BatchCode, statements: Sequence[Sql]) -> Iterator[Violation]:
    written = [*appends(program, code.parts)]
    to = [*_written_to(program, code)]
    inserts = [*_inserts(program, code, statements)]
    targets = Counter(_target(program, step, writer) for step, writer in written)
    targets.update(target for _, _, target in (*to, *inserts))
    writes = _Writes(program, code, targets)
    for step, writer in written:
        if option_of(writer.steps, "txnVersion") is not None or opaque(writer.steps):
            continue
        if text_of(method_argument(writer.steps, "format", "format")) not in _VOLATILE:
            yield Violation(program.span_of_name(step.node), _AGAIN, writes.fix(step, writer))
    for node, frame, target in to:
        yield Violation(program.span_of_name(node), _AGAIN, writes.append_once(node, frame, target))
    for sql, rows, target in inserts:
        if sql.call is not None:
            fix = writes.append_once(sql.call, rows, target) if rows else "# use append_once with the inserted rows"
            yield Violation(sql.span_of(0), _AGAIN, fix)


def _written_to(program: Program, code: BatchCode) -> Iterator[tuple[ast.Call, str, str]]:
    """Each ``frame.writeTo(target).append()``: the call, the frame and the target."""
    for step, _ in program.calls("append"):
        written = step.node.func.value if isinstance(step.node.func, ast.Attribute) else None
        before = written.func if isinstance(written, ast.Call) else None
        named = isinstance(before, ast.Attribute) and before.attr == "writeTo"
        if step.node not in code.parts or not named or not isinstance(written, ast.Call):
            continue
        if isinstance(before, ast.Attribute) and isinstance(program.value(before.value), Frame):
            target = program.source(written.args[0]) if written.args else '"target"'
            yield step.node, program.source(before.value), target


def _inserts(program: Program, code: BatchCode, statements: Sequence[Sql]) -> Iterator[tuple[Sql, str, str]]:
    """Each INSERT INTO: the statement, its query as code (empty if unknown), and the target."""
    for sql in statements:
        call = sql.call
        if call is None or call not in code.parts:
            continue
        begin = 3 if sql.tokens[2:3] and sql.tokens[2].is_word("TABLE") else 2
        name = name_at(sql.tokens, begin)
        behind = begin + 2 * name.count(".") + 1
        selects = sql.tokens[behind : behind + 1] and sql.tokens[behind].is_word("SELECT", "FROM", "WITH")
        text = text_of(program.value(call.args[0])) if call.args else None
        rows = ""
        if selects and text is not None and isinstance(call.func, ast.Attribute):
            query = text[sql.tokens[behind].start :].strip()
            rows = f"{program.source(call.func.value)}.sql({json.dumps(query, ensure_ascii=False)})"
        yield sql, rows, json.dumps(name, ensure_ascii=False)


class _Writes:
    """The writes of one function, and how to replace each."""

    def __init__(self, program: Program, code: BatchCode, targets: Counter[str]) -> None:
        self._program = program
        self._code = code
        self._targets = targets
        self._given: Counter[str] = Counter()

    def append_once(self, node: ast.Call, frame: str, target: str, more: str = "") -> str:
        """The call that appends a frame once, as code."""
        write = self._write(target)
        name = f', name="{write}"' if write else ""
        about = ""
        if self._in_loop(node, target):
            frame, about = "rows", _OF_LOOP
        elif self._code.is_pipeline_sink and not is_path(target):
            target, about = '"/path/of/the/table"', "  # in a pipeline, write to tables by path"
        return f"headrace.delivery.append_once({frame}, {self._code.batch_id_name}, {target}{name}{more}){about}"

    def fix(self, step: Step, writer: Writer) -> str:
        """The replacement of a write, by its format."""
        frame, target = self._program.source(writer.node.value), _target(self._program, step, writer)
        named = method_argument(writer.steps, "format", "format")
        form = "jdbc" if step.name == "jdbc" else step.name if step.name in methods.FILE_FORMATS else text_of(named)
        if form in methods.FILE_FORMATS:
            return self._into_folder(step, writer, target)
        if form in _OF_PIPELINES:
            return f'dp.create_sink("out", "{form}", {{...}})  # {_OF_PIPELINES[form]}'
        if named is not None and form != "delta":
            number = self._code.batch_id_name
            return f"# a retried batch has the same number, {number}: the sink can use it to detect repeats"
        if any(given.name not in _CARRIED for given in writer.steps[:-1]):
            number = self._code.batch_id_name
            return f'.option("txnAppId", f"{{query_name}}-{self._free()}").option("txnVersion", {number})'
        found = self.append_once(step.node, frame, target, _carried(self._program, step, writer))
        return found if form == "delta" or "  #" in found else f"{found}  # for a Delta table"

    def _into_folder(self, step: Step, writer: Writer, target: str) -> str:
        """Overwrite a folder of the batch's own, so that a retry replaces it."""
        program, node = self._program, step.node
        write = self._write(target)
        folder = f"/batch={{{self._code.batch_id_name}}}" + (f"/{write}" if write else "")
        path = f'f"{{{target}}}{folder}"'
        if isinstance(text := _literal(target), str):
            path = f'f"{text}{folder}"'
        given = [f".{one.name}({call_arguments(program, one.node)})" for one in writer.steps[:-1] if one.name != "mode"]
        first = [path, *map(program.source, node.args[1:])]
        named = [f"{one.arg}={program.source(one.value)}" for one in node.keywords if one.arg not in ("mode", "path")]
        looped = self._in_loop(node, target)
        frame = "rows" if looped else program.source(writer.node.value)
        call = f'{frame}.write{"".join(given)}.mode("overwrite").{step.name}({", ".join((*first, *named))})'
        return f"{call}{_OF_LOOP}" if looped else call

    def _write(self, target: str) -> str:
        """A name for the write, unique among those to the same target; empty if it is the only one."""
        if self._targets[target] <= 1:
            return ""
        self._given[target] += 1
        return f"write_{self._given[target]}"

    def _free(self) -> int:
        self._given[""] += 1
        return self._given[""]

    def _in_loop(self, node: ast.Call, target: str) -> bool:
        loop = self._code.enclosing_loop(node)
        return loop is not None and not _differs(loop, target)


def _literal(code: str) -> object:
    """The value of a string literal; None for other code, and for text with braces."""
    try:
        value = ast.literal_eval(code)
    except ValueError:
        return None
    return value if isinstance(value, str) and not set(value) & set('{}"\\') else None


def is_path(target: str) -> bool:
    """Whether code names a path, or may."""
    return "/" in target or ":" in target or not target.startswith(('"', "'"))


def _differs(loop: ast.AST, target: str) -> bool:
    """Whether the target differs between the iterations of a loop."""
    names = {node.id for node in ast.walk(ast.parse(target, mode="eval")) if isinstance(node, ast.Name)}
    if isinstance(loop, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return bool(names & {argument.arg for argument in loop.args.args})
    bound = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(names & bound)


def _target(program: Program, step: Step, writer: Writer) -> str:
    """The target of a write, as code."""
    wanted = {"insertInto": "tableName", "saveAsTable": "name"}.get(step.name, "path")
    node = step.node.args[0] if step.node.args else None
    for keyword in step.node.keywords:
        node = keyword.value if keyword.arg == wanted else node
    for given in writer.steps:
        if node is None and given.name == "option" and text_of(given.first) == "path" and len(given.node.args) > 1:
            node = given.node.args[1]
    return program.source(node) if node is not None else '"/tables/target"'


def _carried(program: Program, step: Step, writer: Writer) -> str:
    """The writer's other settings, as arguments of append_once."""
    options: list[str] = []
    columns: list[str] = []
    for given in writer.steps:
        named = [
            one for one in given.node.keywords if one.arg not in (None, "format", "mode", "name", "path", "tableName")
        ]
        if given.name == "option" and len(given.node.args) > 1 and text_of(given.first) != "path":
            options.append(f"{program.source(given.node.args[0])}: {program.source(given.node.args[1])}")
        elif given.name == "partitionBy":
            columns += map(program.source, given.node.args)
        elif given.name == "options" or given is step or given.node is step.node:
            for one in named:
                if one.arg == "partitionBy":
                    columns.append(f"*{program.source(one.value)}")
                elif one.arg != "overwrite":
                    options.append(f'"{one.arg}": {program.source(one.value)}')
    found = f", partition_by=[{', '.join(columns)}]" if columns else ""
    return found + (f", options={{{', '.join(options)}}}" if options else "")


def _posted(program: Program, code: BatchCode) -> Iterator[Violation]:
    if any(isinstance(part, ast.Constant) and _IDEMPOTENT.search(str(part.value)) for part in code.parts):
        return
    sent = 0
    for step, called in program.facts.steps:
        posts = isinstance(called, Imported) and called.name in _POSTING and step.node in code.parts
        headers = next((one.value for one in step.node.keywords if one.arg == "headers"), None)
        spread = any(one.arg is None for one in step.node.keywords)
        if not posts or spread or (headers is not None and not _written_out(program, headers, code)):
            continue
        sent += 1
        key = f"{getattr(code.function.node, 'name', 'batches')}-{sent}-{{{code.batch_id_name}}}"
        key += "-{key_of_the_payload}" if code.enclosing_loop(step.node) is not None else ""
        before = f"**{program.source(headers)}, " if isinstance(headers, ast.Name) else ""
        if isinstance(headers, ast.Dict):
            pairs = zip(headers.keys, headers.values, strict=True)
            before = "".join(
                f"{program.source(name)}: {program.source(value)}, " if name else f"**{program.source(value)}, "
                for name, value in pairs
            )
        fix = f'headers={{{before}"Idempotency-Key": f"{key}"}}'
        yield Violation(program.span_of_name(step.node), "a retried batch is sent again", fix)


def _written_out(program: Program, headers: ast.expr, code: BatchCode) -> bool:
    """Whether all headers are literal, so that none can be an idempotency key."""
    if isinstance(headers, ast.Dict):
        return None not in headers.keys
    if not isinstance(headers, ast.Name) or headers.id in {argument.arg for argument in code.function.node.args.args}:
        return False
    bound = [
        node.value
        for node in program.nodes
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == headers.id for target in node.targets)
    ]
    changed = any(
        isinstance(node, ast.Subscript | ast.Attribute) and ast.unparse(node.value) == headers.id
        for node in program.nodes
    )
    keys = [key for value in bound if isinstance(value, ast.Dict) for key in value.keys]
    plain = all(isinstance(key, ast.Constant) and not _IDEMPOTENT.search(str(key.value)) for key in keys)
    return len(bound) == 1 and isinstance(bound[0], ast.Dict) and plain and not changed


RULES = (rule("foreach-batch-not-idempotent", _not_idempotent),)
