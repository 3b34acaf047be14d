"""Corruptions by name, and a run on each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import selfadapt
from selfadapt import corruption, signatures
from selfadapt.errors import BadInput, UnknownName

NEEDS = {"matrix": ("path", "m.csv"), "human": ("path", "people.npz")}


def test_kinds_are_found_by_name() -> None:
    assert {"none", "uniform", "asymmetric_cifar10", "gaussian"} <= set(corruption.names())
    assert all(corruption.names().values()), "every kind has a card"
    assert not {"resolve", "names", "fingerprint", "generator"} & set(corruption.names())
    with pytest.raises(UnknownName, match="Did you mean 'uniform'"):
        corruption.resolve("unifrom")
    with pytest.raises(UnknownName):
        corruption.resolve("fingerprint")


def theirs(labels: np.ndarray, num_classes: int, seed: int, *, shift: int = 1) -> np.ndarray:
    """Somebody else's."""
    return (labels + shift) % num_classes


def test_somebody_elses_kind_is_found_by_module_and_function() -> None:
    found = corruption.resolve(f"{__name__}:theirs")
    assert found is theirs
    assert corruption.changes_labels(found)
    assert signatures.bind(found, "corruption", {}) == {"shift": 1}
    for name in ("no_such_module:f", f"{__name__}:gone", f"{__name__}:NEEDS"):
        with pytest.raises(BadInput, match="corruption"):
            corruption.resolve(name)


@pytest.mark.parametrize("name", sorted(corruption.names()))
def test_a_run_says_what_noise_it_saw(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 255, (200, 8, 8, 3), dtype=np.uint8), np.arange(200) % 10
    np.savetxt(tmp_path / "m.csv", np.full((10, 10), 0.1), delimiter=",")
    np.savez(tmp_path / "people.npz", worse_label=(y + 1) % 10)
    settings = {"corruption.name": name, "train.epochs": 1, "data.test": 0}
    if name in NEEDS:
        key, file = NEEDS[name]
        settings[f"corruption.{key}"] = str(tmp_path / file)
    found = []
    for method in ("erm", "sat"):
        run = selfadapt.fit(
            (x, y), out=tmp_path / method, method=method, net="mlp", settings=settings
        )
        found.append(run.about["noise"])
    assert found[0] == found[1], "two methods saw the same noise"
    noise, kind = found[0], corruption.resolve(name)
    assert noise["name"] == name
    if corruption.changes_labels(kind):
        assert noise["noisy_images"] is None
        assert (noise["error_rate"] or 0.0) == pytest.approx(
            float((np.array(run.labels["given"]) != y).mean())
        )
    else:
        assert noise["noisy_images"] == 80
        assert len(noise["fingerprint_images"]) == 64
        assert noise["fingerprint"] == corruption.fingerprint(y)
