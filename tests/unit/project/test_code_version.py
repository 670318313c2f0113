"""Which code an update ran: a digest of its files, and the commit that was checked out."""

from __future__ import annotations

import subprocess

import pytest

from headrace.project.update.code_version import code_digest, git_commit
from headrace.settings.load import load_settings


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "shop"
    (root / "transformations").mkdir(parents=True)
    (root / "pipeline.yml").write_text("name: shop\n")
    (root / "transformations" / "orders.py").write_text("a = 1\n")
    return root


def digest(project):
    return code_digest(load_settings(project / "pipeline.yml", profile=None, environ={}))


def git(folder, *words):
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "init.defaultBranch=main")
    run = subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True)
    return run.stdout.strip()


@pytest.mark.parametrize("file", ["pipeline.yml", "transformations/orders.py", "transformations/new.sql", "module.py"])
def test_the_digest_changes_with_each_file_of_the_project(project, file):
    before = digest(project)
    assert digest(project) == before

    with (project / file).open("a") as stream:
        stream.write("# more\n")
    assert digest(project) != before


def test_a_file_that_moved_is_other_code(project):
    before = digest(project)
    (project / "transformations" / "orders.py").rename(project / "transformations" / "other.py")

    assert digest(project) != before


def test_the_commit_is_that_of_git(project):
    outside = git_commit(project)
    git(project.parent, "init")
    unborn = git_commit(project)
    git(project.parent, "add", ".")
    git(project.parent, "commit", "-m", "first")
    head = git(project.parent, "rev-parse", "HEAD")

    assert (outside, unborn) == (None, None)
    assert git_commit(project) == head
    git(project.parent, "pack-refs", "--all")
    assert git_commit(project) == head
    git(project.parent, "worktree", "add", "tree", "-b", "other")
    tree = project.parent / "tree"
    assert (git_commit(tree / "shop"), (tree / ".git").is_file()) == (head, True)
    git(project.parent, "checkout", "--detach")
    assert git_commit(project) == head


@pytest.mark.parametrize("head", ["", "ref: ../../secret", "ref: refs/../../secret", "not a commit"])
def test_a_repository_that_cannot_be_read_has_no_commit(project, head):
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text(head)
    (project / "secret").write_text("a" * 40)

    assert git_commit(project) is None
