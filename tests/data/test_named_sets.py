"""Named sets, found in their published layouts or fetched; no real archive is needed."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from selfadapt.data import cifar, load, sources
from selfadapt.data.fetch import cache
from selfadapt.data.sources import fashion_mnist
from selfadapt.errors import BadInput, DamagedFile, SelfAdaptError

RNG = np.random.default_rng(2)
NAMES = {10: [f"class{i}" for i in range(10)], 100: [f"fine{i}" for i in range(100)]}


def records(pixels: np.ndarray, labels: np.ndarray, coarse: bool) -> bytes:
    """As the authors describe it: label byte(s), then 1,024 red, green and blue values."""
    rows = []
    for image, label in zip(pixels, labels, strict=True):
        planes = b"".join(image[..., channel].tobytes() for channel in range(3))
        rows.append((b"\x07" if coarse else b"") + bytes([label]) + planes)
    return b"".join(rows)


@pytest.fixture(params=[cifar.CIFAR10, cifar.CIFAR100], ids=["cifar10", "cifar100"])
def published(request) -> tuple[cifar.Archive, dict[str, bytes], np.ndarray, np.ndarray]:
    """A small set in the published layout, with its pixels and labels (6 a file, test last)."""
    archive = request.param
    coarse = archive is cifar.CIFAR100
    names = (*archive.train, archive.test)
    pixels = RNG.integers(0, 256, (6 * len(names), 32, 32, 3), dtype=np.uint8)
    labels = np.tile([0, 3, 9, 9, 3, 0], len(names))
    files = {
        name: records(pixels[6 * i : 6 * i + 6], labels[6 * i : 6 * i + 6], coarse)
        for i, name in enumerate(names)
    }
    files[archive.classes] = "\n".join([*NAMES[100 if coarse else 10], ""]).encode()
    return archive, files, pixels, labels


def unpack(folder: Path, files: dict[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def packed(archive: cifar.Archive, files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"{archive.folder}/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def check(data, pixels: np.ndarray, labels: np.ndarray) -> None:
    count = len(pixels) - 6
    assert (len(data), len(data.test)) == (count, 6)
    assert (data.inputs.read(np.arange(count))[0].numpy() == pixels[:count]).all()
    assert (data.test.inputs.read(np.arange(6))[0].numpy() == pixels[count:]).all()
    assert data.labels.tolist() == labels[:count].tolist()
    assert data.classes[9] in ("class9", "fine9")
    assert data.inputs.shape == (3, 32, 32)


def test_cifar_unpacked(published, tmp_path: Path):
    archive, files, pixels, labels = published
    unpack(tmp_path / archive.folder, files)
    check(load(archive.name, root=tmp_path), pixels, labels)
    check(load(archive.name, root=tmp_path / archive.folder), pixels, labels)
    check(load(tmp_path), pixels, labels)


def test_cifar_archive(published, tmp_path: Path):
    archive, files, pixels, labels = published
    (tmp_path / archive.file).write_bytes(packed(archive, files))
    check(load(archive.name, root=tmp_path), pixels, labels)
    (tmp_path / archive.file).write_bytes(packed(archive, files)[:5000])
    with pytest.raises(DamagedFile, match="is damaged"):
        load(archive.name, root=tmp_path)


def test_cifar_fetched(published, web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    archive, files, pixels, labels = published
    folder, address = web
    content = packed(archive, files)
    (folder / archive.file).write_bytes(content)
    served = replace(
        archive, address=f"{address}/{archive.file}", md5=hashlib.md5(content).hexdigest()
    )
    monkeypatch.setattr(cifar, archive.name.upper(), served)
    monkeypatch.setenv("SELFADAPT_CACHE", str(tmp_path / "cache"))
    check(load(archive.name), pixels, labels)
    assert (tmp_path / "cache" / archive.file).read_bytes() == content
    (folder / archive.file).unlink()
    check(load(archive.name), pixels, labels)
    monkeypatch.setenv("SELFADAPT_CACHE", str(tmp_path / "another"))
    with pytest.raises(SelfAdaptError) as told:
        load(archive.name, root=tmp_path)
    assert f"get {archive.file} elsewhere and put it into {tmp_path}: the set is" in str(told.value)
    with pytest.raises(SelfAdaptError, match=r"name the folder with data\.root"):
        load(archive.name)


def test_pickles_are_never_read(published, tmp_path: Path):
    archive, *_ = published
    (tmp_path / archive.pickled).mkdir()
    (tmp_path / archive.pickled / "data_batch_1").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(BadInput, match=f"pickled version.*{archive.file}"):
        load(archive.name, root=tmp_path)


def test_damaged_cifar(published, tmp_path: Path):
    archive, files, *_ = published
    last = archive.train[-1]
    unpack(tmp_path / archive.folder, files | {last: files[last][:-1]})
    with pytest.raises(DamagedFile, match=f"{last}.*not a multiple"):
        load(archive.name, root=tmp_path)
    (tmp_path / archive.folder / archive.test).unlink()
    (tmp_path / archive.folder / last).write_bytes(files[last])
    with pytest.raises(BadInput, match=f"{archive.test} is missing"):
        load(archive.name, root=tmp_path)


def fashion_files(x: np.ndarray, y: np.ndarray) -> dict[str, bytes]:
    def idx(values: np.ndarray) -> bytes:
        header = bytes((0, 0, 8, values.ndim)) + np.array(values.shape, ">u4").tobytes()
        return gzip.compress(header + values.astype(np.uint8).tobytes(), mtime=0)

    arrays = (x[:20], y[:20], x[20:], y[20:])
    return {name: idx(each) for name, each in zip(fashion_mnist.MD5, arrays, strict=True)}


@pytest.fixture
def fashion(monkeypatch, tmp_path: Path) -> tuple[dict[str, bytes], np.ndarray]:
    monkeypatch.setenv("SELFADAPT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "debian")
    x = RNG.integers(0, 256, (30, 28, 28), dtype=np.uint8)
    return fashion_files(x, np.arange(30) % 10), x


@pytest.mark.parametrize("name", ["fashion-mnist", "fashion_mnist"])
def test_fashion_mnist_from_root_and_from_debian(fashion, tmp_path: Path, name: str):
    files, x = fashion
    unpack(tmp_path / "root", files)
    unpack(
        tmp_path / "debian", {k.removesuffix(".gz"): gzip.decompress(v) for k, v in files.items()}
    )
    for data in (load(name, root=tmp_path / "root"), load(name)):
        assert (data.name, data.augment) == ("fashion-mnist", "crop_flip")
        assert data.inputs.shape == (1, 28, 28)
        assert data.classes[9] == "Ankle boot"
        assert (data.inputs.read(np.array([7]))[0].numpy()[0, ..., 0] == x[7]).all()
        assert len(data.test) == 10


def test_fashion_mnist_fetched(fashion, web, monkeypatch: pytest.MonkeyPatch):
    files, x = fashion
    folder, address = web
    for name, content in files.items():
        (folder / name).write_bytes(content)
    sums = {name: hashlib.md5(content).hexdigest() for name, content in files.items()}
    monkeypatch.setattr(fashion_mnist, "MD5", sums)
    monkeypatch.setattr(fashion_mnist, "ADDRESS", address)
    data = load("fashion-mnist")
    assert (data.inputs.read(np.array([7]))[0].numpy()[0, ..., 0] == x[7]).all()
    assert sorted(file.name for file in (cache() / "fashion-mnist").glob("*.gz")) == sorted(sums)


def test_imagenet(tmp_path: Path, picture):
    for part, count in (("train", 3), ("val", 1)):
        for wnid in ("n01440764", "n01443537"):
            for i in range(count):
                picture(tmp_path / part / wnid / f"{i}.JPEG", (40, 30), format="JPEG")
    data = load("imagenet", root=tmp_path, size=16)
    assert data.name == "imagenet"
    assert data.classes == ("n01440764", "n01443537")
    assert (len(data), len(data.test), data.inputs.shape) == (6, 2, (3, 16, 16))
    with pytest.raises(BadInput, match=r"data\.root"):
        load("imagenet")
    (tmp_path / "val").rename(tmp_path / "hidden")
    with pytest.raises(BadInput, match="val/ has no class folders"):
        load("imagenet", root=tmp_path)
    with pytest.raises(BadInput, match="holds no ImageNet"):
        load("imagenet", root=tmp_path / "hidden")


def test_digits():
    from sklearn.datasets import load_digits

    data, source = load("digits"), load_digits()
    assert (len(data), len(data.test)) == (1438, 359)
    assert data.augment == "crop"
    assert data.inputs.shape == (1, 8, 8)
    assert data.classes == tuple("0123456789")
    for part in (data, data.test):
        rows = np.array(part.ids, int)
        assert (part.labels == source.target[rows]).all()
        pixels = part.inputs.read(np.arange(len(part)))[0].numpy()[..., 0]
        assert abs(pixels / 255 * 16 - source.images[rows]).max() < 0.04
        assert pixels.max() == 255
    share = np.bincount(data.test.labels) / np.bincount(source.target)
    assert (abs(share - 0.2) < 0.01).all()
    assert not set(data.ids) & set(data.test.ids)
    assert load("digits").ids == data.ids
    assert load(**data.source).ids == data.ids


def test_every_set_has_a_card():
    cards = sources.names()
    ours = ("cifar10", "cifar100", "digits", "dogs-vs-cats", "fashion-mnist", "imagenet", "svhn")
    assert tuple(cards) == ours
    for card in cards.values():
        first = card.splitlines()[0]
        assert first.endswith(".")
        assert len(first) <= 100
    with pytest.raises(BadInput, match=r"data.label='y' names a column, but digits has none"):
        load("digits", label="y")


def test_a_folder_of_the_same_name_is_told_of(tmp_path, monkeypatch, class_folders):
    monkeypatch.chdir(tmp_path)
    assert load("digits").notes == ()
    class_folders.rename("digits")
    assert load("digits").notes == (
        "digits is the data set of this name; what lies here under this name is ./digits",
    )
    assert load("./digits").classes == ("cat", "dog")
