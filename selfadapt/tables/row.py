"""One run as a flat record, whether it comes from a run directory or from a kept JSON file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from selfadapt.tables.confusion import Confusion

Curve = Sequence[float | None]


@dataclass(frozen=True, eq=False)
class Row(Mapping[str, Any]):
    """As a mapping: labels, settings ("method.name", …), results, then what is named here."""

    path: str  # of a kept row: its name
    done: bool
    seed: int | None
    settings: Mapping[str, Any]
    labels: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, float | None] = field(default_factory=dict)  # log.jsonl's last line
    log: Mapping[str, Curve] = field(default_factory=dict)  # its columns
    about: Mapping[str, Any] = field(default_factory=dict)  # created, commit, machine, noise
    kept_confusion: Confusion | None = None

    def __getitem__(self, name: str) -> Any:
        return self._flat[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flat)

    def __len__(self) -> int:
        return len(self._flat)

    def __repr__(self) -> str:
        return f"Row({self.path!r}, {'done' if self.done else 'not finished'})"

    @cached_property
    def _flat(self) -> dict[str, Any]:
        own = {"path": self.path, "done": self.done, "seed": self.seed}
        commit = {"commit": self.about.get("commit")}
        return {**commit, **self.results, **own, **self.settings, **self.labels}

    @property
    def clean_share(self) -> float | None:
        """The share of training samples whose label and image are as they were."""
        noise = self.about.get("noise", {})
        images, samples = noise.get("noisy_images"), self.about.get("samples")
        if images is not None and samples:
            return 1 - float(images) / float(samples)
        wrong = noise.get("error_rate")
        return None if wrong is None else 1 - float(wrong)

    def with_labels(self, labels: Mapping[str, Any]) -> Row:
        """With what is known of the run beside its files; a name with a dot is a setting."""
        settings = {name: value for name, value in labels.items() if "." in name}
        others = {name: value for name, value in labels.items() if "." not in name}
        return replace(
            self,
            settings={**self.settings, **settings},
            labels={**self.labels, **others},
        )
