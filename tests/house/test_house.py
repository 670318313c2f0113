"""Rules of the house that no linter knows: sizes, words, errors, documents, what the package carries."""

from __future__ import annotations

import ast
import os
import re
import runpy
import string
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import conditions
from headrace.model.names import Naming
from headrace.pipelines.registry import Registry, collecting

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "headrace"
MODULES = sorted(SOURCE.rglob("*.py"))
TREES = {module: ast.parse(module.read_text(encoding="utf-8")) for module in MODULES}
# Ten rules look at each node, and a walk through the trees costs more than the look.
NODES = {module: tuple(ast.walk(tree)) for module, tree in TREES.items()}
MAX_FILE_LINES = 500
MAX_TEST_FILE_LINES = 600
MAX_FUNCTION_LINES = 80
MOST_FUNCTION_LINES = 30
MAX_METHODS = 15
MAX_NEEDED_MODULES = 20

# Written so that no pattern finds itself.
REGISTRY_HOST = re.compile(
    r"[\w-]+[.](?:maven|pypi|pythonhosted|npmjs|debian|ubuntu)[.](?:org|com|io)|\b(?:pypi|crates|npmjs)[.](?:org|io|com)"
    r"|https?[:]//\S*(?:maven|pypi|npm|crates|debian)",
    re.IGNORECASE,
)
WORKPLACE = re.compile(
    r"[.][.]/shared|/wor[k]/|developer [s]ession|this [s]ession|\bC[E]O\b|sub-?[a]gent", re.IGNORECASE
)


def public_modules(tree: ast.Module) -> list[str] | None:
    """The names in ``__all__``, or None if the module has none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


ROOMS = {
    ".".join(module.parent.relative_to(ROOT / "src").parts): public
    for module, tree in TREES.items()
    if module.name == "__init__.py" and module.parent not in (SOURCE, SOURCE / "pipelines")
    if (public := public_modules(tree)) is not None
}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions() -> Iterator[tuple[str, int]]:
    """Every function of the package by its place, with its length without decorators."""
    for module, nodes in NODES.items():
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{relative(module)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def tracked() -> list[Path]:
    """Every file of the project, without what git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project with its content."""
    for path in tracked():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def error_calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every ``PipelineError("CODE", ...)`` in the package: place, code, call."""
    for module, nodes in NODES.items():
        for node in nodes:
            match node:
                case ast.Call(func=ast.Name(id="PipelineError"), args=[ast.Constant(value=str(code)), *_]):
                    yield f"{relative(module)}:{node.lineno}", code, node


def test_no_file_is_longer_than_its_budget() -> None:
    budgets = {
        **dict.fromkeys([*MODULES, *(ROOT / "tools").rglob("*.py")], MAX_FILE_LINES),
        **dict.fromkeys((ROOT / "tests").rglob("*.py"), MAX_TEST_FILE_LINES),
    }

    long = {relative(file): n for file, budget in budgets.items() if (n := len(file.read_text().splitlines())) > budget}

    assert long == {}


def test_no_function_is_longer_than_its_budget() -> None:
    assert {place: length for place, length in functions() if length > MAX_FUNCTION_LINES} == {}


def test_the_95th_percentile_of_function_lengths_is_within_its_budget() -> None:
    lengths = sorted(length for _, length in functions())

    assert lengths[len(lengths) * 95 // 100] <= MOST_FUNCTION_LINES


def test_no_class_has_more_methods_than_its_budget() -> None:
    large = {
        f"{relative(module)} {node.name}": methods
        for module, nodes in NODES.items()
        for node in nodes
        if isinstance(node, ast.ClassDef)
        and (methods := sum(isinstance(member, ast.FunctionDef) for member in node.body)) > MAX_METHODS
    }

    assert large == {}


def test_no_module_imports_more_internal_modules_than_its_budget() -> None:
    modules = {".".join(module.relative_to(ROOT / "src").with_suffix("").parts) for module in MODULES}
    needed = {
        relative(module): {
            f"{statement.module}.{alias.name}" if f"{statement.module}.{alias.name}" in modules else statement.module
            for statement in nodes
            if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("headrace")
            for alias in statement.names
        }
        for module, nodes in NODES.items()
    }

    assert {module: len(names) for module, names in needed.items() if len(names) > MAX_NEEDED_MODULES} == {}


# Loaded in a process of its own by each query, which needs little of it; what is not loaded was measured.
LOADED_BY_EACH_QUERY = {"src/headrace/spark/data_sources/cloud_files.py"}


def test_no_function_imports_internal_modules() -> None:
    hidden = [
        f"{relative(module)}:{statement.lineno}"
        for module, nodes in NODES.items()
        if relative(module) not in LOADED_BY_EACH_QUERY
        for function in nodes
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in ast.walk(function)
        if isinstance(statement, ast.Import | ast.ImportFrom)
        and any(name.split(".")[0] == "headrace" for name in imported(statement))
    ]

    assert hidden == []


def imported(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Absolute names of the modules that a statement imports; a relative import is our own."""
    if isinstance(statement, ast.ImportFrom):
        return ["headrace" if statement.level else statement.module or ""]
    return [alias.name for alias in statement.names]


def test_no_module_has_a_meaningless_name() -> None:
    empty_words = {"common", "helpers", "impl", "manager", "misc", "utils", "util"}

    assert [relative(module) for module in MODULES if empty_words & set(module.with_suffix("").parts)] == []


def test_every_package_has_a_docstring() -> None:
    packages = {module.parent for module in MODULES}

    assert [relative(folder) for folder in packages if not (folder / "__init__.py").is_file()] == []
    assert [relative(folder) for folder in packages if not ast.get_docstring(TREES[folder / "__init__.py"])] == []


def test_packages_are_imported_only_through_their_public_modules() -> None:
    """A package with ``__all__`` lists the modules that other packages may import."""
    entered = [
        f"{relative(module)}: {name}"
        for module, nodes in NODES.items()
        for statement in nodes
        if isinstance(statement, ast.ImportFrom)
        for name in (f"{statement.module}.{alias.name}" for alias in statement.names)
        for room, public in ROOMS.items()
        if name.startswith(f"{room}.") and not relative(module).startswith(f"src/{room.replace('.', '/')}/")
        if name.removeprefix(f"{room}.").split(".")[0] not in public
    ]

    assert entered == []


def test_no_file_names_a_package_registry() -> None:
    assert [f"{relative(file)}: {hit.group()}" for file, text in texts() for hit in REGISTRY_HOST.finditer(text)] == []


def test_no_file_mentions_the_development_environment() -> None:
    found = [(relative(file), hit.group()) for file, text in texts() for hit in WORKPLACE.finditer(text)]

    # Where the documents of `make conformance` are, unless it is said.
    assert found == [("Makefile", "../" + "shared")]


def test_every_error_condition_is_raised_somewhere() -> None:
    said = {
        node.value
        for nodes in NODES.values()
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    assert [code for code in conditions() if code not in said] == []


def test_every_raised_error_code_is_a_known_condition() -> None:
    assert [f"{place} {code}" for place, code, _ in error_calls() if code not in conditions()] == []


def test_every_raised_error_provides_the_parameters_of_its_text() -> None:
    lacking = [
        f"{place} {code}: {name}"
        for place, code, call in error_calls()
        if code in conditions() and all(keyword.arg for keyword in call.keywords)
        for name in sorted(parameters(code) - {str(keyword.arg) for keyword in call.keywords})
    ]

    assert lacking == []


def parameters(code: str) -> set[str]:
    """The parameters that the texts of a condition name."""
    condition = conditions()[code]
    text = condition.message + condition.detail + condition.hint
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_spark_error_conditions_map_to_known_conditions() -> None:
    known = tomllib.loads((SOURCE / "spark_conditions.toml").read_text(encoding="utf-8"))

    assert {entry["means"] for entry in known.values() if "means" in entry} <= set(conditions())


def test_every_error_condition_follows_the_wording_rules() -> None:
    odd = [
        code
        for code, condition in conditions().items()
        if not condition.hint.strip()
        or condition.message.endswith(".")
        or re.match(r"[A-Z][a-z]", condition.message)
        or "\n" in condition.message
    ]

    assert odd == []


@pytest.mark.parametrize(
    "page",
    [
        "alerts",
        "api",
        "auto-loader",
        "auto-loader-cases",
        "command-line",
        "doctor",
        "errors",
        "event-hubs",
        "kafka",
        "knowledge-base",
        "lint",
        "metrics",
        "notebook-session",
        "requirements",
        "settings",
        "sinks",
        "sources",
        "system-tables",
        "vendor-api",
    ],
)
def test_a_generated_page_is_up_to_date(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    pages = runpy.run_path(str(ROOT / "tools" / "docs.py"))["PAGES"]

    path = f"reference/{page}.md"
    assert (ROOT / "docs" / path).read_text(encoding="utf-8") == pages[path](), "run `make docs`"


@pytest.mark.parametrize(
    "path",
    [
        "docs/reference/openapi.json",
        "docs/reference/pipeline.schema.json",
        "src/headrace/cli/completion/grammar.json",
    ],
)
def test_a_generated_file_is_up_to_date(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    files = runpy.run_path(str(ROOT / "tools" / "docs.py"))["FILES"]

    assert (ROOT / path).read_text(encoding="utf-8") == files[path](), "run `make docs`"


def test_every_generated_page_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    pages = runpy.run_path(str(ROOT / "tools" / "docs.py"))["PAGES"]

    (compared,) = (mark for mark in test_a_generated_page_is_up_to_date.pytestmark if mark.name == "parametrize")
    assert {f"reference/{page}.md" for page in compared.args[1]} == set(pages)


def test_every_link_between_documents_resolves() -> None:
    broken = [
        f"{relative(file)}: {link}"
        for file, text in texts()
        if file.suffix == ".md"
        for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
        if not (file.parent / link).exists()
    ]

    assert broken == []


def test_every_link_to_a_heading_resolves() -> None:
    pages = {file: text for file, text in texts() if file.suffix == ".md"}
    broken = [
        f"{relative(file)}: {link}#{anchor}"
        for file, text in pages.items()
        for link, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", text)
        if anchor not in anchors(pages.get((file.parent / link).resolve() if link else file, ""))
    ]

    assert broken == []


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.casefold()).strip().replace(" ", "-") for heading in plain}


def test_every_page_is_in_the_site_navigation_once() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = re.findall(r"^ +- (?:[^:]+: )?(\S+[.]md)$", settings.partition("\nnav:\n")[2], re.MULTILINE)

    docs = ROOT / "docs"
    assert sorted(navigation) == sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        target
        for file, text in texts()
        if file.suffix == ".md"
        for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)
    }

    assert named <= targets


def test_the_python_example_of_the_readme_declares_its_datasets() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    registry = Registry(Naming(), ROOT)

    with collecting(registry):
        exec(compile(example, "README.md", "exec"), {})

    assert [str(dataset.name) for dataset in registry.definitions().datasets] == ["orders_raw", "orders", "revenue"]
    assert registry.problems == []


def test_importing_headrace_loads_no_heavy_dependency() -> None:
    heavy = ["pyspark", "pandas", "pyarrow", "deltalake", "sqlglot", "typer", "rich", "yaml"]
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import headrace\n"
        f"print([name for name in {heavy} if sys.modules.get(name)])\n"
    )

    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)

    assert shown.stdout.strip() == "[]"


def test_the_wheel_contains_every_file_of_the_package(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    carried = set(zipfile.ZipFile(wheel).namelist())
    files = {path.relative_to(ROOT / "src").as_posix() for path in SOURCE.rglob("*") if path.is_file()}

    assert {name for name in files if "__pycache__" not in name} - carried == set()


def test_no_user_table_is_read_with_to_pyarrow_which_returns_null_for_mapped_columns() -> None:
    # ``to_pyarrow_*`` of delta-rs: one of these looks for it first, the other reads a table of ours with fixed columns.
    known = {"src/headrace/testing/result.py", "src/headrace/storage/dead_letters.py"}

    found = {str(file.relative_to(ROOT)) for file in (ROOT / "src").rglob("*.py") if "to_pyarrow" in file.read_text()}

    assert found == known


# What reads a storage with pathlib on purpose: it is for a disk alone, and refuses or passes over a bucket.
ON_DISKS = re.compile(
    r"cli/completion/|practice/|testing/|scripts/|spark/notebook/"
    r"|project/inspection/diagnosis/(crash_tests|machine_facts)[.]py|delta_log/erased_values[.]py"
)
# Arguments that are places of a storage, apart from the parts of it that stay on the machine.
PLACES = re.compile(r"layout[.](?!logs|monitoring)|settings[.]storage|(path|log|table|checkpoint|place)$")
# Modules where a path is one of a storage.
STORAGE_ROOMS = ("storage", "project", "delta_log", "events", "metrics", "plan", "spark")


def test_no_place_of_a_storage_is_a_path_of_a_disk() -> None:
    found = {
        f"{relative(module)}:{node.lineno}"
        for module, nodes in NODES.items()
        if module.relative_to(SOURCE).parts[0] in STORAGE_ROOMS and not ON_DISKS.search(relative(module))
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Path"
        if node.args and PLACES.match(ast.unparse(node.args[0]).removeprefix("self."))
    }

    # Files of Spark's own file source, which the settings of no storage name.
    assert {place.partition(":")[0] for place in found} <= {"src/headrace/spark/monitoring/unread_files.py"}
