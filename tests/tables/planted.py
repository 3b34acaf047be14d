"""Rows without files, planted so that it is known what is to be found in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from selfadapt.tables import Confusion, Row


def planted(
    method: str,
    seed: int = 1,
    *,
    rate: float = 0.4,
    labels: dict[str, Any] | None = None,
    log: dict[str, Sequence[float | None]] | None = None,
    noise: dict[str, Any] | None = None,
    confusion: Confusion | None = None,
    seconds: float = 10.0,
    settings: dict[str, Any] | None = None,
    **results: Any,
) -> Row:
    knobs = {"method.reweight": True, "method.average": "kept"} if method == "sat" else {}
    return Row(
        path=f"{method}-{rate}-{seed}",
        done=True,
        seed=seed,
        settings={
            "data.name": "digits",
            "corruption.name": "uniform",
            "corruption.rate": rate,
            "net.name": "mlp",
            "method.name": method,
            **knobs,
            **(settings or {}),
        },
        labels=labels or {},
        results={"training_seconds_of_all_stages": seconds, **results},
        last={name: values[-1] for name, values in (log or {}).items()},
        log=log or {},
        about={
            "noise": {"error_rate": 0.9 * rate, "fingerprint": f"{rate} {seed}"} | (noise or {})
        },
        kept_confusion=confusion,
    )


def over_rates(method: str, accuracies: dict[float, float], **known: Any) -> list[Row]:
    """Three seeds at each rate, scattered by half a point about the accuracy."""
    return [
        planted(method, seed, rate=rate, accuracy=accuracy + (seed - 2) * 0.005, **known)
        for rate, accuracy in accuracies.items()
        for seed in (1, 2, 3)
    ]
