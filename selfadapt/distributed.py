"""What several processes must agree on. In a single process each function returns its input."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from selfadapt.errors import SelfAdaptError

T = TypeVar("T")


def processes() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if processes() > 1 else 0


def is_first() -> bool:
    return rank() == 0


def my_part(rows: Tensor) -> Tensor:
    """This process's share of a global batch: contiguous, sizes at most one apart."""
    return rows.tensor_split(processes())[rank()]


def before_me(count: int) -> int:
    """How many there are on the processes of lower rank, where each has `count` of its own."""
    return sum(from_all(count)[: rank()]) if processes() > 1 else 0


def sum_over(values: Tensor) -> Tensor:
    """The sum of `values` over all processes, on each of them."""
    if processes() == 1:
        return values
    total = _where_it_travels(values).clone()
    dist.all_reduce(total)
    return total.to(values.device)


def _where_it_travels(values: Tensor) -> Tensor:
    """NCCL carries only what lies on a GPU; somebody's table of beliefs may not."""
    if values.device.type == "cpu" and dist.get_backend() == "nccl":
        return values.cuda()
    return values


def gather_rows(rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """All processes' (rows, values), in the order of their ranks. Processes may hold different
    numbers of rows: shorter parts travel padded with row -1, which is dropped on arrival."""
    if processes() == 1:
        return rows, values
    here = rows.device, values.device
    rows, values = _where_it_travels(rows), _where_it_travels(values)
    most = torch.tensor([len(rows)], device=rows.device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    padded_rows = rows.new_full((int(most),), -1)
    padded_rows[: len(rows)] = rows
    padded_values = values.new_zeros((int(most), *values.shape[1:]))
    padded_values[: len(rows)] = values
    all_rows = [torch.empty_like(padded_rows) for _ in range(processes())]
    all_values = [torch.empty_like(padded_values) for _ in range(processes())]
    dist.all_gather(all_rows, padded_rows)
    dist.all_gather(all_values, padded_values)
    joined = torch.cat(all_rows)
    there = joined >= 0
    return joined[there].to(here[0]), torch.cat(all_values)[there].to(here[1])


def average_batchnorm(module: nn.Module) -> None:
    """Give every process the mean of all running statistics of batch norm. Each has seen its own
    part of the batch; without this, the same net would predict differently on each process."""
    if processes() == 1:
        return
    statistics = [
        buffer
        for name, buffer in module.named_buffers()
        if name.rsplit(".", 1)[-1] in ("running_mean", "running_var")
    ]
    if not statistics:
        return
    flat = torch.cat([s.reshape(-1) for s in statistics])
    dist.all_reduce(flat)
    flat /= processes()
    means = torch.split(flat, [s.numel() for s in statistics])
    for statistic, mean in zip(statistics, means, strict=True):
        statistic.copy_(mean.view_as(statistic))


def from_first(value: Any) -> Any:
    """The first process's value, on every process."""
    if processes() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def on_first(function: Callable[[], T]) -> T:
    """What `function` returns on the first process, where alone it is called; its error is raised
    on all of them, so that none waits for one that has failed."""
    if processes() == 1:
        return function()
    value: T | None = None
    error: Exception | None = None
    if is_first():
        try:
            value = function()
        except Exception as failed:
            error = failed
    box = [value, None if error is None else _that_travels(error)]
    dist.broadcast_object_list(box, src=0)
    if error is not None:
        raise error
    if box[1] is not None:
        raise box[1]  # type: ignore[misc]
    return box[0]  # type: ignore[return-value]


def _that_travels(error: Exception) -> Exception:
    try:
        copied = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever a stranger's exception does when it is copied
        copied = None
    if isinstance(copied, Exception):
        return copied
    return SelfAdaptError(f"the first process failed: {type(error).__name__}: {error}")


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """What the wrapper for several processes does in a backward pass, after one."""
    if processes() == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= processes()


def from_all(value: Any) -> list[Any]:
    """Every process's value, in the order of their ranks, on each of them."""
    if processes() == 1:
        return [value]
    box: list[Any] = [None] * processes()
    dist.all_gather_object(box, value)
    return box


def wait_for_everyone() -> None:
    if processes() > 1:
        dist.barrier()
