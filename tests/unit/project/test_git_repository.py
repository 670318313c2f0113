"""The repository of a project, from git's files; what a remote's URL may hold besides the place is not shown."""

from __future__ import annotations

import pytest

from headrace.lineage.facets import Repository
from headrace.project.update.git_repository import git_repository, repository_of

CONFIG = """\
[core]
    url = https://not.this/one
[remote "fork"]
    url = https://not.this/either
[remote "origin"]
\turl = https://me:CANARY@github.com/shop/pipelines.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
    url = https://not.this/too
"""
FOUND = Repository("https://github.com/shop/pipelines.git", "https://github.com/shop/pipelines/blob", "daily/orders")


def test_a_project_is_found_in_the_repository_above_it(tmp_path):
    project = tmp_path / "daily" / "orders"
    project.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text(CONFIG)

    assert git_repository(project) == FOUND


def test_a_worktree_has_the_remote_of_its_repository(tmp_path):
    folder, tree = tmp_path / "main" / ".git" / "worktrees" / "w", tmp_path / "w" / "daily" / "orders"
    folder.mkdir(parents=True)
    tree.mkdir(parents=True)
    (folder / "commondir").write_text("../..\n")
    (folder.parents[1] / "config").write_text(CONFIG)
    (tmp_path / "w" / ".git").write_text(f"gitdir: {folder}\n")

    assert git_repository(tree) == FOUND


def test_without_a_repository_or_a_remote_none_is_known(tmp_path):
    (tmp_path / "a" / ".git").mkdir(parents=True)
    (tmp_path / "b" / ".git").mkdir(parents=True)
    (tmp_path / "b" / ".git" / "config").write_text("[core]\n")
    (tmp_path / "c" / ".git").mkdir(parents=True)
    (tmp_path / "c" / ".git" / "config").write_bytes(b"\xff")

    assert [git_repository(tmp_path / name) for name in "abc"] == [None, None, None]


@pytest.mark.parametrize(
    ("url", "shown", "page"),
    [
        (
            "git@gitlab.example.com:g/s/p.git",
            "git@gitlab.example.com:g/s/p.git",
            "https://gitlab.example.com/g/s/p/-/blob",
        ),
        ("ssh://git@bitbucket.org/o/r", "ssh://bitbucket.org/o/r", "https://bitbucket.org/o/r/src"),
        ("https://CANARY@github.com/o/r?x=CANARY", "https://github.com/o/r", "https://github.com/o/r/blob"),
        ("/srv/git/r.git", "local", None),
        ("https://[", "local", None),
        ("https://github.com", "https://github.com/", None),
    ],
)
def test_remotes(url, shown, page):
    assert repository_of(url) == Repository(shown, page)
