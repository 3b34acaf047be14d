"""Decoding: every kind of picture comes out right, and a broken one is named."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from selfadapt.data import ImageFiles, InMemory, check_quarantine, images, load
from selfadapt.errors import BadInput

RNG = np.random.default_rng(3)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def smooth(height: int, width: int) -> np.ndarray:
    """A picture that JPEG keeps almost unchanged."""
    y, x = np.mgrid[:height, :width]
    return np.stack(
        [255 * y / height, 255 * x / width, 255 - 200 * y * x / (height * width)], axis=-1
    ).astype(np.uint8)


def test_png_pixels_are_exact():
    pixels = RNG.integers(0, 256, (9, 9, 3), dtype=np.uint8)
    assert (images.decode(encoded(Image.fromarray(pixels), "PNG"), 9) == pixels).all()


@pytest.mark.parametrize(("height", "width"), [(9, 15), (15, 9), (10, 9)])
def test_the_centre_square_is_taken(height: int, width: int):
    pixels = RNG.integers(0, 256, (height, width, 3), dtype=np.uint8)
    top, left = (height - 9) // 2, (width - 9) // 2
    expected = pixels[top : top + 9, left : left + 9]
    assert (images.decode(encoded(Image.fromarray(pixels), "PNG"), 9) == expected).all()


def test_scaling_equals_scaling_the_shorter_side_then_cropping():
    pixels = smooth(64, 96)
    whole = Image.fromarray(pixels).resize((48, 32), Image.Resampling.BILINEAR)
    expected = np.asarray(whole)[:, 8:40].astype(int)
    found = images.decode(encoded(Image.fromarray(pixels), "PNG"), 32).astype(int)
    assert abs(found - expected).max() <= 1


ROTATED = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: a.transpose(1, 0, 2)[:, ::-1],
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: a.transpose(1, 0, 2)[::-1],
}


@pytest.mark.parametrize("orientation", ROTATED)
def test_exif_orientation_is_applied(orientation: int):
    image = Image.fromarray(smooth(16, 16))
    exif = Image.Exif()
    exif[0x0112] = orientation
    turned = images.decode(encoded(image, "JPEG", exif=exif, quality=95), 16)
    plain = images.decode(encoded(image, "JPEG", quality=95), 16)
    assert (turned == ROTATED[orientation](plain)).all()


def test_grey_becomes_three_equal_channels():
    grey = RNG.integers(0, 256, (8, 8), dtype=np.uint8)
    found = images.decode(encoded(Image.fromarray(grey), "PNG"), 8)
    assert (found == grey[..., None]).all()
    found = images.decode(encoded(Image.fromarray(grey), "JPEG"), 8)
    assert (found[..., 0] == found[..., 2]).all()


def test_16_bits_are_scaled_not_clipped():
    values = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
    for form in ("PNG", "TIFF"):
        found = images.decode(encoded(Image.fromarray(values), form), 8)[..., 0]
        assert abs(found - values / 65535 * 255).max() <= 0.5


def test_alpha_lies_on_white():
    rgba = np.zeros((4, 4, 4), np.uint8)
    rgba[..., 0] = 200
    rgba[:2, :, 3] = 255
    rgba[2:, :, 3] = 51
    found = images.decode(encoded(Image.fromarray(rgba), "PNG"), 4)
    assert (found[0, 0] == (200, 0, 0)).all()
    assert abs(found[3, 0].astype(int) - (244, 204, 204)).max() <= 1
    grey = Image.fromarray(np.full((4, 4, 2), (30, 0), np.uint8), "LA")
    assert (images.decode(encoded(grey, "PNG"), 4) == 255).all()


def test_palette_with_and_without_transparency():
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    assert (images.decode(encoded(image, "PNG"), 4) == (10, 200, 30)).all()
    see_through = encoded(image, "PNG", transparency=1)
    assert (images.decode(see_through, 4) == 255).all()
    partly = encoded(image, "PNG", transparency=bytes([0, 51]))
    assert abs(images.decode(partly, 4)[0, 0].astype(int) - (206, 244, 210)).max() <= 1


def test_cmyk_and_bilevel():
    cmyk = Image.fromarray(np.full((8, 8, 4), (0, 255, 255, 0), np.uint8), "CMYK")
    content = encoded(cmyk, "JPEG", quality=95)
    assert images._fast(content) is None
    assert abs(images.decode(content, 8).astype(int) - (255, 0, 0)).max() <= 3
    lines = np.arange(64).reshape(8, 8) % 2 == 0
    found = images.decode(encoded(Image.fromarray(lines), "PNG"), 8)
    assert (found == np.where(lines, 255, 0)[..., None]).all()


def test_a_colour_profile_changes_nothing():
    pixels = smooth(8, 8)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    found = images.decode(encoded(Image.fromarray(pixels), "PNG", icc_profile=profile), 8)
    assert (found == pixels).all()


def test_a_png_called_jpg(tmp_path: Path):
    pixels = RNG.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(Image.fromarray(pixels), "PNG"))
    found, failed = ImageFiles([str(path)], 8).read(np.array([0]))
    assert not failed
    assert (found.numpy()[0] == pixels).all()


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(32, 32), (33, 47), (7, 5)])
@pytest.mark.parametrize("progressive", [False, True])
def test_the_fast_path_gives_the_same_pixels(subsampling, size, progressive, monkeypatch):
    pytest.importorskip("simplejpeg")
    pixels = RNG.integers(0, 256, (*size, 3), dtype=np.uint8)
    content = encoded(
        Image.fromarray(pixels), "JPEG", subsampling=subsampling, progressive=progressive
    )
    assert images._fast(content) is not None
    fast = images.decode(content, 16)
    monkeypatch.setattr(images, "_simplejpeg", lambda: None)
    assert (images.decode(content, 16) == fast).all()


def test_reading_is_lazy_names_failures_and_survives_pickling(tmp_path: Path):
    good = encoded(Image.fromarray(smooth(8, 8)), "JPEG")
    (tmp_path / "good.jpg").write_bytes(good)
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "cut.jpg").write_bytes(good[:-20])
    (tmp_path / "text.jpg").write_text("no picture")
    names = ("good", "empty", "cut", "text", "missing")
    items = [*(str(tmp_path / f"{name}.jpg") for name in names), good]
    files = pickle.loads(pickle.dumps(ImageFiles(items, 8)))
    assert files.shape == (3, 8, 8)
    assert len(files) == 6
    assert files.nbytes == 6 * 8 * 8 * 3
    pixels, failed = files.read(np.array([5, 4, 3, 2, 1, 0]))
    assert sorted(failed) == [1, 2, 3, 4]
    assert failed[1] == "zero bytes"
    assert "truncated" in failed[2]
    assert failed[3] == "not an image"
    assert failed[4] == "no such file"
    assert (pixels[1:5] == 0).all()
    assert torch.equal(pixels[0], pixels[5])


def test_large_sets_stay_on_disk(class_folders: Path, monkeypatch):
    at_once = load(class_folders)
    monkeypatch.setattr(images, "IN_MEMORY", 27 * 8 * 8 * 3 - 1)
    lazily = load(class_folders)
    assert isinstance(at_once.inputs, InMemory)
    assert isinstance(lazily.inputs, ImageFiles)
    assert isinstance(lazily.test.inputs, InMemory)
    rows = np.array([3, 0, 26])
    assert torch.equal(lazily.inputs.read(rows)[0], at_once.inputs.read(rows)[0])


def test_many_images_keep_their_rows(tmp_path: Path):
    count = 2 * images._CHUNK + 10
    colours = RNG.integers(0, 256, (count, 3), dtype=np.uint8)
    items = [encoded(Image.fromarray(colour[None, None]), "PNG") for colour in colours]
    items[300] = b"broken"
    inputs, failed = images.open_images(items, 1, None, "reading")
    colours[300] = 0
    assert failed == {300: "not an image"}
    assert (inputs.read(np.arange(count))[0].numpy()[:, 0, 0] == colours).all()


def test_quarantine_names_counts_and_keeps_rows(class_folders: Path):
    (class_folders / "cat" / "03.png").write_bytes(b"")
    (class_folders / "dog" / "04.png").write_text("oops")
    data = load(class_folders, test=0)
    bad = {data.ids.index("cat/03.png"), data.ids.index("dog/04.png")}
    assert set(data.quarantined) == bad == {3, 24}
    assert len(data) == 30
    assert any("2 of 30" in note and "cat/03.png (zero bytes)" in note for note in data.notes)


def test_quarantine_rule():
    ids = [f"{i}.jpg" for i in range(1000)]

    def failing(count: int) -> dict[int, str]:
        return dict.fromkeys(range(count), "zero bytes")

    assert check_quarantine({}, 1000, ids) == ()
    assert "5 of 10 " in check_quarantine(failing(5), 10, ids)[0]
    assert "10 of 1,000 " in check_quarantine(failing(10), 1000, ids)[0]
    with pytest.raises(BadInput, match=r"0\.jpg \(zero bytes\).* and 6 more"):
        check_quarantine(failing(11), 1000, ids)
    with pytest.raises(BadInput, match="6 of 599"):
        check_quarantine(failing(6), 599, ids)
    with pytest.raises(BadInput, match="3 of 3"):
        check_quarantine(failing(3), 3, ids)


def test_too_many_broken_files_stop_the_load(class_folders: Path):
    for i in range(6):
        (class_folders / "cat" / f"{i:02d}.png").write_bytes(b"")
    with pytest.raises(BadInput, match="6 of 30 training images cannot be read"):
        load(class_folders, test=0)


def test_size_is_chosen_from_the_images(tmp_path: Path, picture):
    def side(*sizes: tuple[int, int]) -> int:
        items = [str(picture(tmp_path / f"{i}.png", size)) for i, size in enumerate(sizes)]
        return images.choose_size(items, None)

    assert side((32, 32), (32, 32)) == 32
    assert side((40, 30), (40, 30)) == 30
    assert side((100, 100), (100, 100)) == 100
    assert side((300, 400), (500, 333)) == 224
    assert side((10, 30), (20, 40), (30, 30)) == 20
    assert images.choose_size([b"broken"], None) == 224
    assert images.choose_size([b"broken"], 17) == 17


def test_progress_is_told(class_folders: Path):
    told: list[tuple[int, int, str]] = []
    load(class_folders, test=0, progress=lambda *now: told.append(now))
    assert told[-1] == (30, 30, "reading training images")
