from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def picture() -> Callable[..., Path]:
    """Write a picture of random pixels; returns its path."""
    rng = np.random.default_rng(7)

    def write(path: Path, size: tuple[int, int] = (8, 8), **options: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, **options)
        return path

    return write


@pytest.fixture
def class_folders(tmp_path: Path, picture: Callable[..., Path]) -> Path:
    """photos/ with 20 cats and 10 dogs."""
    for name, count in (("cat", 20), ("dog", 10)):
        for i in range(count):
            picture(tmp_path / "photos" / name / f"{i:02d}.png")
    return tmp_path / "photos"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address it is served at."""
    (tmp_path / "web").mkdir()
    handler = functools.partial(_Quiet, directory=tmp_path / "web")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield tmp_path / "web", f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def pixels_of(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path).convert("RGB"))
