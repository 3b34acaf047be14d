"""What every source of data becomes: inputs that can be read by row, and the labels given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Augment = Literal["none", "crop", "crop_flip"]


class Inputs(Protocol):
    """Samples of one shape. Images are read as uint8 [B, H, W, C] or float32 [B, C, H, W],
    anything else as float32 [B, D]."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample as a net sees it: (C, H, W) or (D,)."""

    @property
    def nbytes(self) -> int:
        """What all samples take once read."""

    def __len__(self) -> int: ...

    def read(self, rows: Rows) -> tuple[torch.Tensor, dict[int, str]]:
        """The samples of these rows, in order, and for each row that could not be read the
        reason (its place in the tensor is zeros)."""


@dataclass(frozen=True)
class InMemory:
    """Samples that are one tensor: uint8 [N, H, W, C], float32 [N, C, H, W] or float32 [N, D]."""

    values: torch.Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        size = tuple(self.values.shape[1:])
        return (size[2], size[0], size[1]) if self.values.dtype == torch.uint8 else size

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def __len__(self) -> int:
        return len(self.values)

    def read(self, rows: Rows) -> tuple[torch.Tensor, dict[int, str]]:
        return self.values[torch.from_numpy(rows).to(self.values.device)], {}

    def on(self, device: torch.device) -> InMemory:
        """On a GPU, where that leaves most of its memory free: no step waits for its inputs."""
        if device.type != "cuda" or self.nbytes > torch.cuda.mem_get_info(device)[0] // 4:
            return self
        return InMemory(self.values.to(device))


@dataclass(frozen=True)
class LabelledData:
    """A training part, in the order of its source, with the test part beside it.

    A row is a sample's position here and never changes: a sample that cannot be read keeps its
    row and is named in `quarantined`.
    """

    name: str
    inputs: Inputs
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    ids: Sequence[str]  # unique, and stable across subsets: a path, a value of the id column, …
    id_name: str = "id"  # what an id is: "path", "row", or the name of the column it came from
    true_labels: NDArray[np.int64] | None = None
    noisy_images: NDArray[np.bool_] | None = None  # whose pixels a corruption has changed
    clean_inputs: Inputs | None = None  # before it did, where that is known
    test: LabelledData | None = None
    left_out: Inputs | None = None  # test samples of classes that are left out
    corrupted: tuple[str, ...] = ()  # by what noise of ours, in order: "uniform, rate=0.4, seed 1"
    quarantined: Mapping[int, str] = field(default_factory=dict)
    augment: Augment = (
        "crop_flip"  # what suits these pictures when nobody says: digits must not flip
    )
    features: tuple[str, ...] | None = None  # the columns of a table that the inputs come from
    held_out: int = 0  # how many samples of the source became the test part
    source: Mapping[str, Any] = field(default_factory=dict)  # how to load it again
    notes: tuple[str, ...] = ()  # what a person should be told about how it was read

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    def with_labels(self, labels: NDArray[np.int64]) -> LabelledData:
        """The same samples with other labels given. Their present labels become the true ones
        unless true ones are known already."""
        true = self.labels if self.true_labels is None else self.true_labels
        return replace(self, labels=labels, true_labels=true)
