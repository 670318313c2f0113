"""The place of a worker: nobody but its user can pretend to be it."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.place import FOLDER_VARIABLE, UnsafePlace, WorkerPlace, check_peer, worker_place

ROOT = os.getuid() == 0


@pytest.fixture
def place(tmp_path: Path) -> WorkerPlace:
    found = worker_place(tmp_path / "project", {FOLDER_VARIABLE: str(tmp_path / "w")})
    found.make()
    return found


@pytest.fixture
def listener(place: WorkerPlace) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place.socket_file))
        place.socket_file.chmod(0o600)
        listening.listen()
        yield listening


def test_a_worker_is_found_by_its_project_however_the_path_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "project")
    environ = {FOLDER_VARIABLE: str(tmp_path)}

    assert worker_place(tmp_path / "project", environ) == worker_place(tmp_path / "link", environ)
    assert worker_place(tmp_path / "project", environ) != worker_place(tmp_path / "other", environ)


def test_only_the_user_can_open_the_folder(place: WorkerPlace) -> None:
    assert place.folder.stat().st_mode & 0o777 == 0o700


def test_a_worker_of_this_user_is_connected(place: WorkerPlace, listener: socket.socket) -> None:
    connection = place.connect()

    assert connection is not None
    with connection:
        accepted, _address = listener.accept()
        with accepted:
            assert check_peer(accepted) == os.getpid()


def test_no_worker_is_found_when_its_socket_is_missing_or_stale(place: WorkerPlace, listener: socket.socket) -> None:
    listener.close()
    assert place.connect() is None

    place.socket_file.unlink()
    assert place.connect() is None


def test_a_folder_that_others_can_open_is_unsafe(place: WorkerPlace, listener: socket.socket) -> None:
    place.folder.chmod(0o770)

    with pytest.raises(UnsafePlace, match="other users can open"):
        place.connect()
    with pytest.raises(UnsafePlace, match="other users can open"):
        place.make()


def test_a_folder_that_is_a_link_is_unsafe(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir(mode=0o700)
    (tmp_path / "w").symlink_to(tmp_path / "own")

    with pytest.raises(UnsafePlace, match="is no folder"):
        worker_place(tmp_path, {FOLDER_VARIABLE: str(tmp_path / "w")}).check_folder()


@pytest.mark.skipif(not ROOT, reason="only root can give a file to another user")
def test_what_belongs_to_another_user_is_unsafe(place: WorkerPlace, listener: socket.socket) -> None:
    os.chown(place.socket_file, 65534, 65534)
    with pytest.raises(UnsafePlace, match="only you can open"):
        place.connect()

    os.chown(place.folder, 65534, 65534)
    with pytest.raises(UnsafePlace, match="belongs to another user"):
        place.connect()


def test_a_forged_socket_is_unsafe(place: WorkerPlace, listener: socket.socket) -> None:
    place.socket_file.chmod(0o666)
    with pytest.raises(UnsafePlace, match="only you can open"):
        place.connect()

    place.socket_file.unlink()
    place.socket_file.touch(mode=0o600)
    with pytest.raises(UnsafePlace, match="only you can open"):
        place.connect()


@pytest.mark.skipif(not ROOT, reason="only root can become another user")
def test_a_process_of_another_user_is_refused() -> None:
    # Other users cannot open the folders of tests.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        Path(folder).chmod(0o711)
        file = Path(folder, "open.sock")
        listening.bind(str(file))
        file.chmod(0o666)
        listening.listen()
        pid = os.fork()
        if pid == 0:
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as foreign:
                foreign.connect(str(file))
                os._exit(0)
        accepted, _address = listening.accept()
        os.waitpid(pid, 0)

        with accepted, pytest.raises(UnsafePlace, match="belongs to another user"):
            check_peer(accepted)
