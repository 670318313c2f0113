"""Loads a project's files into Definitions; reads and writes no data."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.cloudpickle import register_pickle_by_value, unregister_pickle_by_value

from headrace import pipelines
from headrace.errors import PipelineError, Problems
from headrace.model.location import Location
from headrace.model.names import Naming
from headrace.pipelines.registry import Registry, collecting
from headrace.project.loading import tool_calls
from headrace.project.loading.imports import import_from
from headrace.project.loading.load_result import LoadResult, PackageChecker, user_exception
from headrace.project.loading.notebook_cells import Notebooks, is_notebook
from headrace.spark.session.guards import Code, guard_delta, guarded
from headrace.spark.session.listeners import recording_listeners
from headrace.sql.load import load_sql

_NONE: Mapping[str, str] = MappingProxyType({})
# Modules that ours replace while a project's files load (D15).
_STAND_INS = ("dlt", "pyspark.pipelines")


def load_files(
    files: tuple[Path, ...],
    *,
    root: Path,
    import_root: Path,
    naming: Naming,
    configuration: Mapping[str, str],
    globals_: Mapping[str, Any],
    parameters: Mapping[str, str] = _NONE,
    needed: Iterable[tuple[str, Location]] = (),
) -> LoadResult:
    """The declarations of the files, in the order of *files*, and every problem found while loading them.

    Args:
        files: .py and .sql files, and notebooks.
        root: the project's folder; locations are relative to it.
        import_root: the folder whose modules the files may import.
        naming: the pipeline's default catalog and schema.
        configuration: values of ``${name}`` in SQL files.
        globals_: names that Python files can use without an import, such as ``spark``.
        parameters: values of ``:name`` in SQL files.
        needed: packages that the settings require, in the syntax of ``pip install``, each with its location.
    """
    registry = Registry(naming, root)
    packages = PackageChecker(registry.problems)
    packages.check_all(needed, root)
    notebooks = Notebooks(registry, packages, configuration, parameters)
    import_from(root, import_root)
    guard_delta()
    with collecting(registry), _stand_ins(), recording_listeners(), guarded(Code.FILE):
        for number, file in enumerate(files):
            if is_notebook(file):
                with _module(file, number, globals_) as module:
                    notebooks.load(file, module)
            elif file.suffix == ".sql":
                text = file.read_text(encoding="utf-8")
                load_sql(text, registry.relative(file), registry, configuration, parameters)
            else:
                with _module(file, number, globals_) as module:
                    _run_python(file, module, registry)
    definitions = registry.definitions()
    return LoadResult(
        definitions,
        tuple(registry.problems),
        notices=tuple(packages.notices),
        notebooks=tuple(dict.fromkeys(notebooks.files)),
        hooks=tuple(registry.hooks),
    )


@contextmanager
def _module(file: Path, number: int, globals_: Mapping[str, Any]) -> Iterator[types.ModuleType]:
    """Make a separate namespace for a file."""
    module = types.ModuleType(f"headrace_file_{number}_{file.stem.replace('-', '_')}")
    module.__file__ = str(file)
    module.__dict__.update(globals_)
    module.__dict__[tool_calls.NAME] = tool_calls.called
    # Dataclasses look up their module when they are defined. Afterwards the entry is removed, so that functions of the
    # file are pickled by value: Python workers cannot import it.
    sys.modules[module.__name__] = module
    # Workers cannot import objects that the file passes to Spark while it loads, such as its own data source.
    register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield module
    finally:
        unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
        sys.modules.pop(module.__name__, None)


def _run_python(file: Path, module: types.ModuleType, registry: Registry) -> None:
    name = registry.relative(file)
    try:
        # Without dont_inherit, this module's future statements would apply to the user's code.
        code = compile(
            tool_calls.with_tool_calls(file.read_text(encoding="utf-8")), str(file), "exec", dont_inherit=True
        )
        exec(code, module.__dict__)  # noqa: S102 - a pipeline file is code (D14)
    except SyntaxError as error:
        location = Location(name, error.lineno or 0)
        registry.problems.append(PipelineError("FILE.SYNTAX", location=location, reason=error.msg))
    except PipelineError as error:
        located = PipelineError(error.code, location=error.location or _raised_at(error, file, name), **error.params)
        registry.problems.append(located)
    except Problems as error:
        registry.problems.extend(error.errors)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the user's file raises is its problem
        registry.problems.append(user_exception(error, name, _raised_at(error, file, name)))


def _raised_at(error: BaseException, file: Path, name: str) -> Location:
    """The line of the user's file that was running, whatever code it called."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return Location(name, lines[-1] if lines and lines[-1] else 0)


@contextmanager
def _stand_ins() -> Iterator[None]:
    import_parent: Any = sys.modules.get("pyspark")
    before = {name: sys.modules.get(name) for name in _STAND_INS}
    attribute = getattr(import_parent, "pipelines", None)
    for name in _STAND_INS:
        sys.modules[name] = pipelines
    if import_parent is not None:
        import_parent.pipelines = pipelines
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        if import_parent is not None:
            if attribute is None:
                del import_parent.pipelines
            else:
                import_parent.pipelines = attribute
