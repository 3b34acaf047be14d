"""The device a run computes on, its precision, and the wrapper for several processes."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from selfadapt import distributed, launched
from selfadapt.batch import Batch, StepLoss
from selfadapt.methods import Method

ForwardLoss = Callable[[Batch, int], StepLoss]


@dataclass(frozen=True)
class Machine:
    device: torch.device
    precision: str  # fp32 or bf16

    def autocast(self) -> AbstractContextManager[None]:
        return torch.autocast(
            self.device.type, dtype=torch.bfloat16, enabled=self.precision == "bf16"
        )

    def seed(self, number: int) -> None:
        """As torch.manual_seed, which takes a millisecond over devices that are not in use."""
        torch.default_generator.manual_seed(number)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(number)

    def wrap(self, method: Method) -> nn.Module:
        """The whole method is wrapped, so that any number of nets and inner passes lie within one
        call. Buffers are never broadcast: the table of beliefs may be gigabytes, and every process
        moves it alike."""
        if distributed.processes() == 1:
            return method
        ids = [self.device.index] if self.device.type == "cuda" else None
        with warnings.catch_warnings():
            # Its successor forward_sync_buffers=False would send the table once at the start.
            warnings.filterwarnings("ignore", "`broadcast_buffers` is deprecated", FutureWarning)
            return DistributedDataParallel(method, device_ids=ids, broadcast_buffers=False)


def this_machine(precision: str = "auto") -> Machine:
    """Joins the group of processes if a launcher started several, and picks the device."""
    _join_slurm_step()
    state = PartialState()
    device = torch.device(state.device)
    if device.type == "cpu":
        _keep_freed_memory()
    if precision == "auto":
        precision = "bf16" if _has_fast_bf16(device) else "fp32"
    return Machine(device, precision)


@functools.cache
def _keep_freed_memory() -> None:
    """Have glibc keep the memory of one step for the next: to give it back and be handed it again
    page by page is a tenth of a step of ResNet-18. Blocks above 32 MB still go back at once."""
    trim_threshold, mmap_threshold = -1, -3  # as in malloc.h
    with suppress(OSError, AttributeError):  # another system's library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(trim_threshold, 2**31 - 1)
        mallopt(mmap_threshold, 32 << 20)


def _join_slurm_step() -> None:
    """srun says in words of its own what torchrun says: translate, where no launcher did."""
    if not launched.by_slurm():
        return
    given = os.environ
    given["RANK"] = given["SLURM_PROCID"]
    given["WORLD_SIZE"] = given["SLURM_STEP_NUM_TASKS"]
    given["LOCAL_RANK"] = given["SLURM_LOCALID"]
    given.setdefault("MASTER_ADDR", _first_host(given["SLURM_STEP_NODELIST"]))
    given.setdefault("MASTER_PORT", str(20_000 + int(given["SLURM_JOB_ID"]) % 20_000))


def _first_host(nodes: str) -> str:
    """The first of Slurm's `a[01-04,07],b`: a01."""
    name, bracket, numbers = nodes.partition("[")
    if not bracket or "," in name:
        return nodes.partition(",")[0]
    return name + re.split("[],-]", numbers)[0]


def _has_fast_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return False


def hardware() -> dict[str, Any]:
    """What a figure was measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.platform(),
    }


@functools.cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
