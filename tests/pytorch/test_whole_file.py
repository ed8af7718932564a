"""Files are written whole, where they were asked for."""

import os
import threading

import pytest
from tidemark.whole_file import write_whole


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "plan").write_bytes(b"before")
    (tmp_path / "link").symlink_to("plan")
    write_whole(tmp_path / "link", b"after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "plan").read_bytes() == b"after"
    assert sorted(os.listdir(tmp_path)) == ["link", "plan"]


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", b"content")
    reader.join()
    assert read == [b"content"] and (tmp_path / "pipe").is_fifo()


def test_an_error_names_the_path_that_was_given(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(tmp_path / "none" / "plan", b"")
    assert raised.value.filename == str(tmp_path / "none" / "plan")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "folder", b"")
    assert os.listdir(tmp_path / "folder") == [] and sorted(os.listdir(tmp_path)) == ["folder"]
