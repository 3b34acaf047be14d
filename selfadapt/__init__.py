"""Learning from data whose labels cannot be trusted.

Names are imported when first used, so that `import selfadapt` does not import torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from selfadapt import losses as losses
    from selfadapt import methods as methods
    from selfadapt import selective as selective
    from selfadapt.adaptive_loss import SelfAdaptiveLoss as SelfAdaptiveLoss
    from selfadapt.adaptive_loss import with_rows as with_rows
    from selfadapt.data import corrupt as corrupt
    from selfadapt.data import load as load
    from selfadapt.experiment import fit as fit
    from selfadapt.experiment import open_run as open_run
    from selfadapt.hand_over import save as save
    from selfadapt.targets import Targets as Targets

__version__ = "0.1.0"

_HOMES = {
    "SelfAdaptiveLoss": "selfadapt.adaptive_loss",
    "Targets": "selfadapt.targets",
    "corrupt": "selfadapt.data",
    "fit": "selfadapt.experiment",
    "load": "selfadapt.data",
    "losses": "selfadapt.losses",
    "methods": "selfadapt.methods",
    "open_run": "selfadapt.experiment",
    "save": "selfadapt.hand_over",
    "selective": "selfadapt.selective",
    "with_rows": "selfadapt.adaptive_loss",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'selfadapt' has no attribute {name!r}")
    module = importlib.import_module(_HOMES[name])
    return module if _HOMES[name].endswith(f".{name}") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
