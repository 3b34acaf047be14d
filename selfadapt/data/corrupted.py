"""Data with corrupted labels, or with images some of which are corrupted as they are read."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from selfadapt import corruption
from selfadapt.corruption import ImageNoise
from selfadapt.data.labelled import InMemory, Inputs, LabelledData, Rows
from selfadapt.errors import BadInput
from selfadapt.randomness import key

_AT_ONCE = 4096


@dataclass(frozen=True)
class Corrupted:
    """The chosen rows of `inputs`, changed each time they are read, always alike."""

    inputs: Inputs
    noise: ImageNoise

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inputs.shape

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, rows: Rows) -> tuple[torch.Tensor, dict[int, str]]:
        x, failed = self.inputs.read(rows)
        for place in np.flatnonzero(self.noise.chosen[rows]).tolist():
            row = int(rows[place])
            if row not in failed:
                x[place] = torch.from_numpy(self.noise.change(x[place].numpy(), row))
        return x, failed


def with_image_noise(data: LabelledData, noise: ImageNoise, name: str) -> LabelledData:
    """The same labels with corrupted images; at once where they lie in memory."""
    if len(data.inputs.shape) != 3 or data.inputs.read(np.arange(1))[0].dtype != torch.uint8:
        raise BadInput(
            f"corruption.name={name} changes images of 8 bits; the samples of {data.name} are not "
            "of that kind"
        )
    inputs: Inputs = Corrupted(data.inputs, noise)
    if isinstance(data.inputs, InMemory):
        values = data.inputs.values.clone()
        for rows in np.split(np.arange(len(data)), range(_AT_ONCE, len(data), _AT_ONCE)):
            values[torch.from_numpy(rows)] = inputs.read(rows)[0]
        inputs = InMemory(values)
    # labels stay as they are, and nobody has said that any is wrong
    true = data.labels if data.true_labels is None else data.true_labels
    before = data.inputs if data.clean_inputs is None else data.clean_inputs
    chosen = noise.chosen if data.noisy_images is None else noise.chosen | data.noisy_images
    data = replace(data, noisy_images=chosen, clean_inputs=before)
    return replace(data, inputs=inputs, true_labels=true)


def with_noise(
    data: LabelledData, name: str, seed: int, settings: Mapping[str, Any]
) -> LabelledData:
    """What a run of this seed trains on. The whole training part is corrupted before a validation
    part is split off; the test part never."""
    if name == "none":
        return data
    corrupt, drawn = corruption.resolve(name), key("corruption", seed)
    if not corruption.changes_labels(corrupt):
        return with_image_noise(data, corrupt(len(data), drawn, **settings), name)
    more = {"inputs": data.inputs} if "inputs" in inspect.signature(corrupt).parameters else {}
    return data.with_labels(corrupt(data.labels, data.num_classes, drawn, **more, **settings))
