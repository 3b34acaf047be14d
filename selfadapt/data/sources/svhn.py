"""99,289 colour photographs of digits on houses, of 32×32 pixels; 26,032 of them for testing.

Netzer, Wang, Coates, Bissacco, Wu and Ng, Reading digits in natural images with unsupervised
feature learning, 2011. Read from train_32x32.mat and test_32x32.mat in data.root, or fetched from
the authors' page (246 MB); the 531,131 extra samples are left alone.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from selfadapt.data import labels
from selfadapt.data.fetch import fetch
from selfadapt.data.part import Found, Part, Wanted, no_progress, row_ids
from selfadapt.data.sources import Size
from selfadapt.errors import DamagedFile

ADDRESS = "http://ufldl.stanford.edu/housenumbers"
MD5 = {
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
}
CLASSES = tuple(str(digit) for digit in range(10))

SIZE = Size(73_257, 26_032, (3, 32, 32), 10)


def read(wanted: Wanted) -> Found:
    parts = []
    for done, (name, md5) in enumerate(MD5.items(), 1):
        parts.append(_part(_find(name, md5, wanted)))
        (wanted.progress or no_progress)(done, len(MD5), "reading svhn")
    train, test = parts
    return Found("svhn", train, test, CLASSES, augment="crop")


def _find(name: str, md5: str, wanted: Wanted) -> Path:
    for folder in () if wanted.root is None else (wanted.root, wanted.root / "svhn"):
        if (folder / name).is_file():
            return folder / name
    return fetch(f"{ADDRESS}/{name}", f"svhn/{name}", md5, wanted.progress, wanted.root)


def _part(path: Path) -> Part:
    """X is [H, W, C, N]; a zero is written as class 10."""
    from scipy.io import loadmat  # slow to import, and used here only
    from scipy.io.matlab import MatReadError

    try:
        content = loadmat(path)
        pixels = np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2), np.uint8)
        given = labels.clean(content["y"].ravel().astype(np.int64) % 10, path.name)
    except (MatReadError, ValueError, KeyError, TypeError, OSError, zlib.error) as error:
        raise DamagedFile(f"{path} is damaged: {error!r}. Remove it and get it again.") from None
    return Part(pixels, given, row_ids(len(given)))
