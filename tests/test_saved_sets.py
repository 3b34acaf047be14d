"""A set that was corrupted and saved is, by itself, what a run with that noise would see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from support import blobs

import selfadapt
from selfadapt import cli, corruption
from selfadapt.data import LabelledData, images
from selfadapt.errors import BadInput, UnknownName

QUICK = {
    "net.width": 8,
    "train.epochs": 2,
    "train.batch": 20,
    "data.validation": 0.2,
    "train.curves": True,
}


def pictures(n: int = 80, channels: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (n, 8, 8, channels), dtype=np.uint8), np.arange(n) % 4


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Class folders with 40 pictures, of which one cannot be read."""
    for number, pixels in enumerate(pictures(40)[0]):
        folder = tmp_path / "photos" / "abcd"[number % 4]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    return tmp_path / "photos"


def broken(photos: Path) -> Path:
    (photos / "a" / "00.png").write_bytes(b"no picture")
    return photos


def everything(data: LabelledData) -> np.ndarray:
    return data.inputs.read(np.arange(len(data)))[0].numpy()


def assert_same_set(saved: LabelledData, data: LabelledData) -> None:
    assert (saved.labels == data.labels).all()
    for name in ("true_labels", "noisy_images"):
        found, expected = getattr(saved, name), getattr(data, name)
        assert (found is None) == (expected is None), name
        assert found is None or (found == expected).all(), name
    assert (everything(saved) == everything(data)).all()
    before = [each.clean_inputs for each in (saved, data)]
    assert (before[0] is None) == (before[1] is None) == (data.noisy_images is None)
    if before[0] is not None and before[1] is not None:
        rows = np.arange(len(data))
        assert torch.equal(before[0].read(rows)[0], before[1].read(rows)[0])
    assert everything(saved).dtype == everything(data).dtype
    for name in ("classes", "id_name", "augment", "features", "corrupted"):
        assert getattr(saved, name) == getattr(data, name), name
    assert list(saved.ids) == list(data.ids)
    assert saved.held_out == 0
    assert (saved.test is None) == (data.test is None)
    if saved.test is not None and data.test is not None:
        assert (saved.test.labels == data.test.labels).all()
        assert (everything(saved.test) == everything(data.test)).all()


def saved(data: LabelledData, to: Path) -> LabelledData:
    selfadapt.save(data, to)
    return selfadapt.load(to, test=0 if data.test is None else 0.1)


@pytest.mark.parametrize("to", ["set.npz", "set"])
@pytest.mark.parametrize("name", ["uniform", "instance", "gaussian", "shuffled_pixels"])
def test_pictures_with_noise_come_back_to_the_bit(name: str, to: str, tmp_path: Path) -> None:
    before = selfadapt.load(pictures())
    noisy = selfadapt.corrupt(before, name, seed=5, rate=0.5)
    assert_same_set(saved(noisy, tmp_path / to), noisy)
    assert noisy.corrupted[0].startswith(f"{name}, rate=0.5")
    told = selfadapt.load(tmp_path / to).notes[-1]
    assert told == f"corrupted when it was saved: {noisy.corrupted[0]}"
    assert before.true_labels is None, "what was corrupted is as it was"


@pytest.mark.parametrize(
    "source",
    [
        blobs(60),
        pictures(40, channels=1),
        (np.random.default_rng(0).random((40, 3, 6, 5)), np.arange(40) % 4),
        (*blobs(60), *blobs(20, seed=1)),
        "digits",
    ],
)
@pytest.mark.parametrize("test", [0, 0.25])
def test_every_kind_of_samples_comes_back(source: Any, test: float, tmp_path: Path) -> None:
    data = selfadapt.corrupt(selfadapt.load(source, test=test), "uniform_other", rate=0.3)
    assert_same_set(saved(data, tmp_path / "set.npz"), data)


def test_names_of_columns_and_ids_come_back(tmp_path: Path) -> None:
    x, y = blobs(40)
    columns = {f"f{i}": x[:, i] for i in range(6)}
    table = {"patient": [f"Käse {i}" for i in range(40)], **columns, "label": y.astype(str)}
    pa_csv.write_csv(pa.table(table), tmp_path / "d.csv")
    data = selfadapt.corrupt(selfadapt.load(tmp_path / "d.csv", id="patient"), "next_class")
    found = saved(data, tmp_path / "set.npz")
    assert_same_set(found, data)
    assert (found.id_name, found.features) == ("patient", tuple(columns))


def test_the_file_says_which_rows_were_changed(tmp_path: Path) -> None:
    clean = selfadapt.load(pictures())
    noisy = selfadapt.corrupt(clean, "uniform", rate=0.5)
    both = selfadapt.corrupt(noisy, "gaussian", rate=0.2, seed=2)
    for data, name in ((noisy, "labels"), (both, "both")):
        selfadapt.save(data, tmp_path / f"{name}.npz")
        selfadapt.save(data, tmp_path / name)
        table = pq.read_table(tmp_path / name / "train.parquet")
        with np.load(tmp_path / f"{name}.npz") as file:
            for column, key in (("label", "y"), ("true", "true"), ("noisy", "noisy")):
                assert table[column].to_pylist() == file[key].tolist()
            wrong = file["y"] != clean.labels
            images_too = wrong if name == "labels" else wrong | file["noisy_images"]
            assert (file["noisy"] == images_too).all()
            assert (file["true"] == clean.labels).all(), "the first ones, however often corrupted"
            assert ("noisy_images" in file) == (name == "both")
    assert 0 < both.noisy_images.sum() < wrong.sum() < images_too.sum()
    again = selfadapt.corrupt(both, "random_pixels", rate=0.5, seed=3)
    assert again.noisy_images.sum() > 40, "those of the first noise are changed still"
    assert_same_set(saved(again, tmp_path / "again.npz"), again)
    assert (again.clean_inputs.read(np.arange(len(clean)))[0].numpy() == everything(clean)).all()


def run_of(data: Any, to: Path, **more: Any) -> Any:
    settings = QUICK | {name.replace("__", "."): value for name, value in more.items()}
    return selfadapt.fit(data, out=to, net="mlp", seed=3, settings=settings)


@pytest.mark.parametrize("to", ["set.npz", "set"])
@pytest.mark.parametrize("name", ["uniform", "matrix", "random_pixels"])
def test_a_run_on_the_saved_set_is_the_run_with_that_noise(
    name: str, to: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "m.npy", np.full((4, 4), 0.25))
    knob = f"path={tmp_path / 'm.npy'}" if name == "matrix" else "rate=0.5"
    key, _, value = knob.partition("=")
    there = ["--set", f"corruption.name={name}", "--set", f"corruption.{knob}", "--seed", "3"]
    assert cli.run(["corrupt", str(photos), "--to", str(tmp_path / to), *there]) == 0
    told = capsys.readouterr().out
    assert f"written to {tmp_path / to}" in told.replace("\n", "")
    value = float(value) if key == "rate" else value
    asked = {"corruption__name": name, f"corruption__{key}": value}
    direct = run_of(str(photos), tmp_path / "direct", **asked)
    by_itself = run_of(str(tmp_path / to), tmp_path / "by itself")
    for part in ("error_rate", "fingerprint", "noisy_images", "fingerprint_images"):
        assert by_itself.about["noise"][part] == direct.about["noise"][part], part
    assert by_itself.labels == direct.labels
    for one, other in zip(direct.log, by_itself.log, strict=True):
        figures = [name for name in one if "second" not in name]
        assert [one[name] for name in figures] == [other[name] for name in figures]
        assert one["validation_true_accuracy"] is not None
        assert one["fitted_true"] is not None
    count = int((by_itself.labels["true"].to_numpy() != by_itself.labels["given"].to_numpy()).sum())
    assert f"{count:,} labels changed" in told or "18 images changed" in told


def test_large_sets_go_into_a_folder(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = selfadapt.corrupt(selfadapt.load(photos), "gaussian", rate=0.5)
    monkeypatch.setattr(images, "IN_MEMORY", 100)
    streamed = selfadapt.corrupt(selfadapt.load(photos), "gaussian", rate=0.5)
    with pytest.raises(BadInput, match=r"more than .* held in memory\. Name a folder"):
        selfadapt.save(streamed, tmp_path / "set.npz")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos"]
    assert_same_set(saved(streamed, tmp_path / "set"), at_once)


def test_images_that_cannot_be_read_keep_their_rows(photos: Path, tmp_path: Path) -> None:
    data = selfadapt.corrupt(selfadapt.load(broken(photos), test=0), "uniform")
    assert len(data.quarantined) == 1
    with pytest.raises(BadInput, match=r"1 images of photos cannot be read.*Name a folder"):
        selfadapt.save(data, tmp_path / "set.npz")
    found = saved(data, tmp_path / "set")
    assert (found.labels == data.labels).all()
    assert found.quarantined.keys() == data.quarantined.keys()
    assert list(found.ids) == list(data.ids)


def test_images_larger_than_usual_keep_their_size(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 230, 230, 3), dtype=np.uint8)
    data = selfadapt.load((pixels, np.arange(8) % 2), test=0)
    assert_same_set(saved(data, tmp_path / "set"), data)


def test_the_folder_is_one_of_hugging_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = selfadapt.corrupt(selfadapt.load(pictures()), "uniform")
    selfadapt.save(data, tmp_path / "set")
    found = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert found["train"].features["label"].names == found["train"].features["true"].names
    assert found["train"]["label"][:] == data.labels.tolist()
    assert (np.asarray(found["train"][3]["image"]) == everything(data)[3]).all()
    assert len(found["test"]) == len(data.test)


def test_another_set_takes_the_place_of_the_first(tmp_path: Path) -> None:
    first, second = (selfadapt.load(pictures(seed=seed), test=seed / 5) for seed in (1, 0))
    assert_same_set(saved(first, tmp_path / "set"), first)
    assert_same_set(saved(second, tmp_path / "set"), second)
    (tmp_path / "set" / "mine.txt").touch()
    with pytest.raises(BadInput, match=r"holds other things \(mine.txt\)"):
        selfadapt.save(first, tmp_path / "set")


def test_a_class_that_nobody_is_labelled_with_any_more(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.array([[1.0, 0, 0], [1, 0, 0], [0, 0, 1]]))
    data = selfadapt.load((*blobs(60), *blobs(30, seed=1)))
    data = selfadapt.corrupt(data, "matrix", path=str(tmp_path / "m.npy"))
    assert 1 not in data.labels
    assert_same_set(saved(data, tmp_path / "set.npz"), data)


@pytest.mark.parametrize("to", ["set.npz", "set"])
def test_what_is_held_out_of_corrupted_images_is_as_it_was(to: str, tmp_path: Path) -> None:
    before = selfadapt.load(pictures(), test=0)
    selfadapt.save(selfadapt.corrupt(before, "gaussian", rate=1.0), tmp_path / to)
    found = selfadapt.load(tmp_path / to, test=0.25)
    assert found.test is not None
    held = [int(row) for row in found.test.ids]
    assert len(held) == 20
    assert (everything(found.test) == everything(before)[held]).all()
    assert found.test.noisy_images is found.test.clean_inputs is None
    assert found.noisy_images is not None
    assert found.noisy_images.all()
    assert "images before they were corrupted" in found.notes[0]


def test_images_before_corruption_that_are_too_few(tmp_path: Path) -> None:
    selfadapt.save(selfadapt.corrupt(selfadapt.load(pictures()), "gaussian"), tmp_path / "set.npz")
    with np.load(tmp_path / "set.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "set.npz", **{**arrays, "clean": arrays["clean"][1:]})
    with pytest.raises(BadInput, match="does not hold one image for each that was corrupted"):
        selfadapt.load(tmp_path / "set.npz")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "is not what `selfadapt` writes"),
        ("[1]", "is not what"),
        ('{"features": null, "corrupted": [], "odd": 1}', "is not what"),
        ('{"features": null, "corrupted": [], "augment": "twist"}', "augmentation 'twist'"),
        ('{"features": null, "corrupted": [], "true": "gone"}', "has no 'gone'"),
    ],
)
def test_a_file_that_was_tampered_with(text: str, told: str, tmp_path: Path) -> None:
    x, y = blobs(30)
    np.savez(tmp_path / "set.npz", x=x, y=y, selfadapt=text)
    with pytest.raises(BadInput, match=told):
        selfadapt.load(tmp_path / "set.npz")


def test_what_cannot_be_a_picture_goes_into_an_array(tmp_path: Path) -> None:
    tall = np.zeros((40, 8, 6, 3), np.uint8), np.arange(40) % 2
    for source in (blobs(60), pictures(40, channels=1), tall):
        with pytest.raises(BadInput, match=r"are not square colour images of 8 bits.*name an .npz"):
            selfadapt.save(selfadapt.load(source), tmp_path / "set")
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("set.parquet", "to an .npz file or to a folder, not to"),
        ("gone/set.npz", "there is no folder"),
        ("folder.npz", "is a folder; name a file"),
        ("file", "is a file; name a folder"),
    ],
)
def test_places_that_nothing_can_be_written_to(to: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=told):
        selfadapt.save(selfadapt.load(pictures()), tmp_path / to)


def test_wrong_corruptions(points: Any) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'uniform'"):
        selfadapt.corrupt(points, "unifrom")
    with pytest.raises(UnknownName, match="setting of corruption 'rat'"):
        selfadapt.corrupt(points, "uniform", rat=0.4)
    with pytest.raises(BadInput, match=r"corruption\.rate must be a number"):
        selfadapt.corrupt(points, "uniform", rate="much")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([], "no kind of noise is given: --set corruption.name=… (uniform, "),
        (["train.epochs=3"], "train.epochs is a setting of a run"),
        (["corruption.name=uniform", "data.validation=0.1"], "unknown setting of data"),
    ],
)
def test_commands_that_ask_for_something_else(
    settings: list[str], told: str, npz: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [f"--set={setting}" for setting in settings]
    assert cli.run(["corrupt", str(npz), "--to", str(tmp_path / "set.npz"), *sets]) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "set.npz").exists()


def test_the_noise_is_that_of_the_seed(points: Any) -> None:
    found: Callable[[int], str] = lambda seed: corruption.fingerprint(  # noqa: E731
        selfadapt.corrupt(points, "uniform", seed=seed).labels
    )
    assert found(1) == found(1)
    assert found(1) != found(2)
