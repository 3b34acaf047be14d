"""Fetching from a server on loopback that breaks off, forgets, lies and refuses."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from selfadapt.data import fetch as module
from selfadapt.data.fetch import fetch
from selfadapt.errors import BadInput, DamagedFile, SelfAdaptError

CONTENT = np.random.default_rng(5).bytes(700_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """What it serves, how far it gets each time, and what it was asked."""

    content = CONTENT
    break_after: list[int]  # bytes after which the next answers end
    asked: list[str | None]
    ranges = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/set.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        self.server.asked.append(wanted)
        start = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        if self.path != "/set.bin" or (start and start >= len(self.server.content)):
            self.send_error(416 if start else 404)
            return
        rest = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(
            rest[: self.server.break_after.pop(0) if self.server.break_after else None]
        )

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SELFADAPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    with Server(("127.0.0.1", 0), Handler) as server:
        server.break_after, server.asked = [], []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_fetched_once_with_progress(server: Server, tmp_path: Path):
    told: list[tuple[int, int, str]] = []
    path = fetch(server.address, "sets/set.bin", MD5, lambda *now: told.append(now))
    assert path == tmp_path / "cache" / "sets" / "set.bin"
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT), "fetching set.bin")
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert fetch(server.address, "sets/set.bin", MD5) == path
    assert server.asked == [None]


def test_a_broken_transfer_continues(server: Server):
    server.break_after = [300_000, 100_000]
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=400000-"]


def test_a_later_attempt_continues(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    server.break_after = [300_000]
    with pytest.raises(SelfAdaptError, match=r"300,000 bytes are kept.*data\.root"):
        fetch(server.address, "set.bin", MD5)
    assert not (module.cache() / "set.bin").exists()
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-"]


def test_a_server_that_cannot_continue_starts_again(server: Server):
    server.ranges = False
    server.break_after = [300_000]
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT


def test_a_complete_part_is_only_checked(server: Server):
    module.cache().mkdir(parents=True)
    (module.cache() / "set.bin.part").write_bytes(CONTENT)
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_a_wrong_checksum_leaves_nothing(server: Server):
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(DamagedFile, match=MD5):
        fetch(server.address, "set.bin", MD5)
    assert [file.name for file in module.cache().iterdir()] == ["set.bin.lock"]
    server.content = CONTENT
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT


def test_a_part_of_something_else_is_found_out(server: Server):
    module.cache().mkdir(parents=True)
    (module.cache() / "set.bin.part").write_bytes(b"old" * 1000)
    with pytest.raises(DamagedFile):
        fetch(server.address, "set.bin", MD5)
    assert fetch(server.address, "set.bin", MD5).read_bytes() == CONTENT


def test_refusal_and_silence(server: Server):
    with pytest.raises(SelfAdaptError, match="404"):
        fetch(server.address.replace("set.bin", "other.bin"), "other.bin", MD5)
    assert server.asked == [None]
    with pytest.raises(SelfAdaptError, match="could not be fetched"):
        fetch("http://127.0.0.1:9/set.bin", "other.bin", MD5)


def test_a_cache_that_cannot_be_written(server: Server, tmp_path: Path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SELFADAPT_CACHE", str(tmp_path / "file"))
    with pytest.raises(BadInput, match="SELFADAPT_CACHE"):
        fetch(server.address, "sets/set.bin", MD5)


def test_several_processes_fetch_once(server: Server):
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: fetch(server.address, "set.bin", MD5), range(4)))
    assert len(set(paths)) == 1
    assert server.asked == [None]
