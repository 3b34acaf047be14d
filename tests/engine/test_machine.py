from __future__ import annotations

import resource
import sys

import pytest
import torch

from selfadapt.engine import machine


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("gpu7", "gpu7"), ("a[01-04,07],b2", "a01"), ("b2,a[01-04]", "b2"), ("n[5,9]", "n5")],
)
def test_the_first_host_of_a_slurm_list(nodes: str, first: str) -> None:
    assert machine._first_host(nodes) == first


def test_a_slurm_step_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "SLURM_STEP_NUM_TASKS": "8",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_STEP_NODELIST": "a[01-04]",
        "SLURM_JOB_ID": "123456",
    }
    monkeypatch.setattr(machine.os, "environ", given)
    machine._join_slurm_step()
    assert (given["RANK"], given["WORLD_SIZE"], given["LOCAL_RANK"]) == ("5", "8", "1")
    assert (given["MASTER_ADDR"], given["MASTER_PORT"]) == ("a01", "23456")


def test_a_launcher_and_a_single_task_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({"RANK": "0", "SLURM_STEP_NUM_TASKS": "8"}, {"SLURM_STEP_NUM_TASKS": "1"}):
        before = dict(given)
        monkeypatch.setattr(machine.os, "environ", given)
        machine._join_slurm_step()
        assert given == before


def test_precision_as_asked() -> None:
    asked = machine.this_machine("bf16")
    with asked.autocast():
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.bfloat16
    with machine.this_machine("fp32").autocast():
        assert (torch.ones(4, 4) @ torch.ones(4, 4)).dtype == torch.float32


@pytest.mark.skipif(sys.platform != "linux", reason="a matter of the C library of Linux")
def test_memory_is_kept_from_step_to_step() -> None:
    machine.this_machine()
    for _ in range(10):  # in more than one place, until each is known
        torch.ones(4_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(4_000_000)  # 16 MB, or 3,906 pages
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 2 * 3906
