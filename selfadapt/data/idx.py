"""idx files, the layout of MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from selfadapt.data import labels
from selfadapt.data.part import Found, Part, row_ids
from selfadapt.errors import BadInput, DamagedFile

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_UNSIGNED_BYTE = 8


def read_folder(folder: Path, classes: tuple[str, ...] | None = None) -> Found | None:
    """None where the folder holds no idx files."""
    images, given = (find(folder, name) for name in TRAIN)
    if images is None or given is None:
        return None
    train = _part(images, given)
    images, given = (find(folder, name) for name in TEST)
    test = None if images is None or given is None else _part(images, given)
    # The layout was made for handwriting, which must not be mirrored.
    return Found(folder.name, train, test, classes, augment="crop")


def find(folder: Path, name: str) -> Path | None:
    dotted = name.replace("-idx", ".idx")
    files = (folder / (each + end) for each in (name, dotted) for end in ("", ".gz"))
    return next((file for file in files if file.is_file()), None)


def _part(images: Path, given: Path) -> Part:
    x, y = read(images), read(given)
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise BadInput(f"{images} and {given} do not belong together: {x.shape} and {y.shape}")
    return Part(x[..., None], labels.clean(y, str(given)), row_ids(len(y)))


def read(path: Path) -> NDArray[np.uint8]:
    """An array of bytes: two zeros, the type, the number of axes, their lengths, the values."""
    content = _content(path)
    if len(content) < 4 or content[:3] != bytes((0, 0, _UNSIGNED_BYTE)):
        raise BadInput(f"{path} is not an idx file of unsigned bytes")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DamagedFile(f"{path} ends within its header")
    shape = np.frombuffer(content[4:start], ">u4").tolist()
    values = np.frombuffer(content[start:], np.uint8)
    if len(values) != math.prod(shape):
        raise DamagedFile(f"{path} holds {len(values):,} values, but its header says {shape}")
    return values.reshape(shape)


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise DamagedFile(f"{path} is damaged: {error}. Remove it and get it again.") from None
