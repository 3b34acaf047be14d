"""Files that cannot be read, in sets that are read batch by batch: told of, counted, named, and
no reason for a run to stop while most can be read."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import Starter

import selfadapt
from selfadapt import errors
from selfadapt.data import images
from selfadapt.methods import forward

SETTINGS = {
    "train.epochs": 2,
    "train.batch": 16,
    "train.workers": 0,
    "train.precision": "fp32",
    "data.augment": "none",
    "net.width": 8,
}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for part, count in (("train", 60), ("test", 24)):
        for number in range(count):
            path = tmp_path / "photos" / part / "ab"[number % 2] / f"{number:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "photos"


def damage(photos: Path, part: str, *numbers: int) -> None:
    for number in numbers:
        (photos / part / "ab"[number % 2] / f"{number:02d}.png").write_bytes(b"broken")


def streamed(photos: Path, out: Path, more: dict[str, Any], events: list[Any]) -> Any:
    images.IN_MEMORY = 0
    settings = SETTINGS | more
    return selfadapt.fit(photos, out=out, net="mlp", settings=settings, show=events.append)


@pytest.fixture(autouse=True)
def from_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "IN_MEMORY", 0)


def test_they_are_told_counted_and_named(photos: Path, tmp_path: Path) -> None:
    damage(photos, "train", 7, 20)
    damage(photos, "test", 3)
    events: list[Any] = []
    run = streamed(photos, tmp_path / "run", {}, events)
    notes = [event["note"] for event in events if "note" in event]
    assert sum("2 of 60 training images cannot be read" in note for note in notes) == 1
    told = "1 of 24 test images cannot be read: test/b/03.png"
    assert sum(told in note for note in notes) == 1, notes
    assert any("2 training and 1 test images could not be read" in note for note in notes)
    assert (run.result["unreadable_training"], run.result["unreadable_test"]) == (2, 1)
    with (tmp_path / "run" / "unreadable.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == ["part", "path", "reason"]
    assert sorted(Path(line[1]).name for line in lines[1:]) == ["03.png", "07.png", "20.png"]
    assert {line[2] for line in lines[1:]} == {"not an image"}


def test_where_all_can_be_read_there_is_no_such_file(photos: Path, tmp_path: Path) -> None:
    run = streamed(photos, tmp_path / "run", {}, [])
    assert (run.result["unreadable_training"], run.result["unreadable_test"]) == (0, 0)
    assert not (tmp_path / "run" / "unreadable.csv").exists()


def test_too_many_test_files_are_an_error(photos: Path, tmp_path: Path) -> None:
    damage(photos, "test", *range(6))
    with pytest.raises(errors.BadInput, match="6 of 24 test images cannot be read"):
        streamed(photos, tmp_path / "run", {}, [])


@pytest.mark.parametrize("more", [{"train.batch": 1}, {"train.batch": 4, "train.accumulate": 4}])
def test_a_part_that_is_empty(more: dict[str, Any], photos: Path, tmp_path: Path) -> None:
    """A step all of whose files are broken is an error; one of its parts is not."""
    damage(photos, "train", 5)
    if more["train.batch"] == 1:
        with pytest.raises(errors.BadInput, match="none of the 1 files of a batch can be read"):
            streamed(photos, tmp_path / "run", more, [])
    else:
        assert streamed(photos, tmp_path / "run", more, []).result["training"] == 59


def of_several(photos: Path, out: Path, more: dict[str, Any]) -> dict[str, Any]:
    run = streamed(photos, out, more, [])
    return {name: value.numpy() for name, value in run.method().state_dict().items()}


@pytest.mark.parametrize("more", [{"train.batch": 2}, {"train.batch": 8, "train.accumulate": 4}])
def test_a_process_left_without_rows(
    more: dict[str, Any], photos: Path, tmp_path: Path, processes: Starter
) -> None:
    """The others do not wait for it, and all go on with the same weights."""
    damage(photos, "train", 5, 12, 30)
    first, second = processes.group(2, of_several, photos, tmp_path / "run", more)
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
        assert np.isfinite(value).all()
    assert selfadapt.open_run(tmp_path / "run").result["unreadable_training"] == 3


def test_a_pass_over_the_training_samples_leaves_them_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a run is taken up again, so that no epoch has met them before."""
    damage(photos, "train", 7, 20, 21)
    seen: list[int] = []
    whole = forward.transition

    def counted(probs: np.ndarray[Any, Any], *rest: Any, **more: Any) -> Any:
        seen.append(len(probs))
        return whole(probs, *rest, **more)

    monkeypatch.setattr(forward, "transition", counted)
    more = {"method.name": "forward", "data.validation": 0.1}
    streamed(photos, tmp_path / "run", more, [])
    estimate = tmp_path / "run" / "stages" / "estimate"
    handed = (estimate / "handed.safetensors").read_bytes()
    for done in (tmp_path / "run" / "result.json", estimate / "result.json"):
        done.unlink()
    (estimate / "handed.safetensors").unlink()
    streamed(photos, tmp_path / "run", more, [])
    assert seen[0] == seen[1] < 54, "of 60, six are held out"
    assert (estimate / "handed.safetensors").read_bytes() == handed
