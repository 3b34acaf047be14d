"""Encoded images → uint8 RGB squares, and what happens to those that cannot be read."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from selfadapt.data.labelled import InMemory, Inputs, Rows
from selfadapt.data.part import Encoded, Progress, no_progress
from selfadapt.errors import BadInput

IN_MEMORY = 2 << 30  # sets that take more bytes than this are decoded batch by batch
EXTENSIONS = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff"),
        *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".avif"),
    )
)
Pixels: TypeAlias = NDArray[np.uint8]
_CHUNK = 256


@dataclass(frozen=True)
class ImageFiles:
    """Images read and decoded when asked for: files, or encoded bytes."""

    items: Sequence[str | bytes]
    size: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (3, self.size, self.size)

    @property
    def nbytes(self) -> int:
        return len(self.items) * self.size * self.size * 3

    def __len__(self) -> int:
        return len(self.items)

    def read(self, rows: Rows) -> tuple[torch.Tensor, dict[int, str]]:
        pixels = torch.zeros((len(rows), self.size, self.size, 3), dtype=torch.uint8)
        return pixels, self.read_into(pixels.numpy(), rows)

    def read_into(self, pixels: Pixels, rows: Rows) -> dict[int, str]:
        failed = {}
        for place, row in enumerate(rows.tolist()):
            try:
                pixels[place] = decode(_content(self.items[row]), self.size)
            except Exception as error:  # a broken file can raise anything in a decoder
                failed[row] = _reason(error)
        return failed


def open_images(
    items: Encoded, size: int, progress: Progress | None, what: str
) -> tuple[Inputs, dict[int, str]]:
    """The images in memory if they fit, with those that could not be read; else read lazily."""
    files = ImageFiles(items, size)
    if files.nbytes > IN_MEMORY:
        return files, {}
    pixels = torch.zeros((len(files), size, size, 3), dtype=torch.uint8)
    failed = _fill(pixels.numpy(), files, progress or no_progress, what)
    return InMemory(pixels), failed


def _fill(pixels: Pixels, files: ImageFiles, progress: Progress, what: str) -> dict[int, str]:
    chunks = [np.arange(i, min(i + _CHUNK, len(files))) for i in range(0, len(files), _CHUNK)]
    failed: dict[int, str] = {}
    pool = ThreadPoolExecutor(_processors())
    try:
        jobs = [pool.submit(files.read_into, pixels[rows[0] :], rows) for rows in chunks]
        for rows, job in zip(chunks, jobs, strict=True):
            failed.update(job.result())
            progress(int(rows[-1]) + 1, len(files), what)
    finally:
        # Otherwise Ctrl-C would wait for every image still to come.
        pool.shutdown(cancel_futures=True)
    return failed


def _processors() -> int:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(16, count or 1)


def check_quarantine(
    bad: Mapping[int, str], total: int, ids: Sequence[str], what: str = "training"
) -> tuple[str, ...]:
    """What to tell about images that cannot be read. Too many of them (more than 1 % and more
    than 5, or all) is an error."""
    if not bad:
        return ()
    shown = [f"{ids[row]} ({reason})" for row, reason in sorted(bad.items())[:5]]
    more = f" and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    told = f"{len(bad):,} of {total:,} {what} images cannot be read: {', '.join(shown)}{more}"
    if len(bad) == total or (len(bad) > 5 and len(bad) > 0.01 * total):
        raise BadInput(f"{told}. Up to 1 % (or 5) would be left out; repair or remove them.")
    return (f"{told}; left out",)


def choose_size(items: Encoded, size: int | None) -> int:
    """The given size; else the images' own if it is one and small; else up to 224."""
    if size is not None:
        return size
    sizes = list(_sizes(items))
    if not sizes:
        return 224
    if len(set(sizes)) == 1 and max(sizes[0]) <= 96:
        return min(sizes[0])
    return min(224, int(np.median([min(both) for both in sizes])))


def _sizes(items: Encoded) -> Iterator[tuple[int, int]]:
    for place in np.unique(np.linspace(0, len(items) - 1, 64).astype(int)).tolist():
        item = items[place]
        with (
            contextlib.suppress(Exception),
            Image.open(item if isinstance(item, str) else io.BytesIO(item)) as image,
        ):
            yield image.size


def decode(content: bytes, size: int) -> Pixels:
    """An encoded image, turned the right way up, on white, in RGB: the centre square, scaled."""
    if not content:
        raise ValueError("zero bytes")
    pixels = _fast(content)
    if pixels is not None and pixels.shape[:2] == (size, size):
        return pixels
    if pixels is not None:
        return fit_square(Image.fromarray(pixels), size)
    with Image.open(io.BytesIO(content)) as image:
        return fit_square(_to_rgb(ImageOps.exif_transpose(image)), size)


def fit_square(image: Image.Image, size: int) -> Pixels:
    """The centre square, scaled to `size`: the same as scaling the shorter side, then cropping."""
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    box = (left, top, left + side, top + side)
    if side == size:
        return np.asarray(image.crop(box))
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))


def as_tensor(x: NDArray[Any], side: int) -> torch.Tensor:
    """Arrays as they are; uint8 images [N, H, W, C] as squares of `side`, unless it is 0."""
    if side and x.dtype == np.uint8 and x.shape[1:3] != (side, side):
        squares = [_scaled(each, side) for each in x]
        x = np.stack(squares) if squares else np.zeros((0, side, side, x.shape[3]), np.uint8)
    return torch.from_numpy(np.require(x, requirements=["C", "W"]))


def _scaled(pixels: Pixels, side: int) -> Pixels:
    grey = pixels.shape[2] == 1
    scaled = fit_square(Image.fromarray(pixels[..., 0] if grey else pixels), side)
    return scaled[..., None] if grey else scaled


@functools.cache
def _simplejpeg() -> ModuleType | None:
    try:
        import simplejpeg
    except ImportError:
        return None
    return simplejpeg  # type: ignore[no-any-return]


def _fast(content: bytes) -> Pixels | None:
    """A plain JPEG through simplejpeg; None for anything it reads otherwise than Pillow: other
    formats, files turned by EXIF, CMYK, damage."""
    jpeg = _simplejpeg()
    if jpeg is None or content[:2] != b"\xff\xd8" or b"Exif\0\0" in content:
        return None
    try:
        space = jpeg.decode_jpeg_header(content)[2]
        if space not in ("YCbCr", "Gray"):
            return None
        pixels: Pixels = jpeg.decode_jpeg(content)
        return pixels
    except ValueError:
        return None


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):
        return _from_16_bits(image)
    if image.mode == "F":
        raise ValueError("pixels are floating-point numbers of unknown range; save 8 or 16 bits")
    if image.has_transparency_data:
        colour = image.convert("RGBA")
        white = Image.new("RGBA", colour.size, "white")
        return Image.alpha_composite(white, colour).convert("RGB")
    return image.convert("RGB")


def _from_16_bits(image: Image.Image) -> Image.Image:
    values = np.asarray(image).astype(np.int64).clip(0, 65535)
    return Image.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")


def _content(item: str | bytes) -> bytes:
    return item if isinstance(item, bytes) else Path(item).read_bytes()


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__
