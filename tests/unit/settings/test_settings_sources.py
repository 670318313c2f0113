"""Which files belong to a pipeline."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.settings.load import load_settings
from headrace.settings.source_files import source_files


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()

    def found(*files, settings="name: flights"):
        for name in files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("")
        (root / "pipeline.yml").write_text(settings)
        return [
            file.relative_to(root).as_posix() for file in source_files(load_settings(root / "pipeline.yml", environ={}))
        ]

    found.root = root
    return found


def libraries(*items):
    return "name: flights\nlibraries:\n" + "\n".join(f"  - {item}" for item in items)


def codes(raised):
    return [error.code for error in raised.value]


def test_the_transformations_folder_is_used_when_no_library_is_given(project):
    found = project(
        "transformations/b.sql",
        "transformations/deep/er/a.py",
        "transformations/readme.md",
        "transformations/__pycache__/a.py",
        "transformations/.hidden.py",
        "transformations/.folder/a.py",
        "tests/test_a.py",
    )

    assert found == ["transformations/b.sql", "transformations/deep/er/a.py"]


def test_a_file_is_included_once_when_several_libraries_name_it(project):
    text = libraries("glob: {include: a/**}", "file: {path: a/x.py}", "glob: {include: ./a/../a/x.py}")

    assert project("a/x.py", "a/y.sql", "b/z.py", settings=text) == ["a/x.py", "a/y.sql"]


def test_a_pattern_for_the_whole_project_includes_every_file(project):
    assert project("a.py", "b/c.sql", settings=libraries('glob: {include: "**"}')) == ["a.py", "b/c.sql"]


def test_a_path_with_pattern_characters_is_a_file_when_it_exists(project):
    assert project("a[1].py", settings=libraries('glob: {include: "a[1].py"}')) == ["a[1].py"]


@pytest.mark.parametrize("path", ["../outside.py", "/outside.py", "a/../../outside.py", "link.py"])
def test_a_file_outside_the_project_is_refused(project, path):
    (project.root.parent / "outside.py").write_text("")
    (project.root / "link.py").symlink_to("../outside.py")

    with pytest.raises(Problems) as raised:
        project("a/x.py", settings=libraries(f"file: {{path: {path}}}"))

    assert codes(raised) == ["SETTINGS.OUTSIDE"]


def test_links_that_lead_out_of_the_project_are_refused(project):
    outside = project.root.parent / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("")
    (project.root / "transformations").mkdir()
    (project.root / "transformations" / "folder").symlink_to(outside)
    (project.root / "transformations" / "file.py").symlink_to(outside / "a.py")

    with pytest.raises(Problems) as raised:
        project("transformations/b.py")

    assert codes(raised) == ["SETTINGS.OUTSIDE", "SETTINGS.OUTSIDE"]


def test_a_link_cycle_does_not_repeat_files(project):
    (project.root / "transformations").mkdir()
    (project.root / "transformations" / "loop").symlink_to(project.root / "transformations")

    assert project("transformations/a.py") == ["transformations/a.py"]


def test_notebooks_in_a_folder_are_included(project):
    found = project("transformations/a.py", "transformations/b.ipynb", "transformations/.ipynb_checkpoints/b.ipynb")

    assert found == ["transformations/a.py", "transformations/b.ipynb"]


@pytest.mark.parametrize("path", ["notebooks/orders", "notebooks/orders.ipynb", "./notebooks/orders"])
def test_a_notebook_is_found_with_or_without_its_extension(project, path):
    found = project("notebooks/orders.ipynb", settings=libraries(f"notebook: {{path: {path}}}"))

    assert found == ["notebooks/orders.ipynb"]


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("file: {path: a.txt}", "SETTINGS.FILE_KIND"),
        ("file: {path: folder}", "SETTINGS.FILE_NOT_FOUND"),
        ("glob: {include: absent/**}", "SETTINGS.FILE_NOT_FOUND"),
        ("glob: {include: folder/**/*.py}", "SETTINGS.PATTERN"),
        ("glob: {include: folder/**}", "SETTINGS.NO_FILES"),
        ("notebook: {path: absent}", "SETTINGS.FILE_NOT_FOUND"),
        ("notebook: {path: two}", "SETTINGS.AMBIGUOUS_PATH"),
        ("notebook: {path: ../outside}", "SETTINGS.OUTSIDE"),
        ("notebook: {path: /Repos/team/shop/orders}", "SETTINGS.WORKSPACE_PATH"),
        ("glob: {include: /Workspace/Users/a@b.c/shop/**}", "SETTINGS.WORKSPACE_PATH"),
    ],
)
def test_a_library_without_a_usable_file_is_refused(project, item, code):
    with pytest.raises(Problems) as raised:
        project("a.txt", "folder/readme.md", "two.py", "two.ipynb", settings=libraries(item))

    assert codes(raised) == [code]


def test_files_are_found_when_the_project_path_has_links_or_parent_references(project):
    project("transformations/a.py")
    link = project.root.parent / "link"
    link.symlink_to(project.root)

    for folder in (link, project.root / "transformations" / ".."):
        settings = load_settings(folder / "pipeline.yml", environ={})
        assert source_files(settings) == (project.root.resolve() / "transformations" / "a.py",)
