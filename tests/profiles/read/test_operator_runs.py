"""Results of `msprof op` and of its simulator: time, blocks and pipes of kernels that ran alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.base.errors import InputError
from hermes.profiles.read.operator_runs import kernels_alone

BASIC = """Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq
MatMulV2_ND_bf16_1e04ee05_mix_aic,mix,{us},3,6,0,4711,1650,1800
"""
PIPES = """block_id,sub_block_id,aic_time(us),aic_total_cycles,aic_cube_ratio,aic_mte2_ratio,aiv_time(us),aiv_vec_ratio
0,cube0,10.0,18000,0.9,0.3,NA,NA
1,cube0,10.0,18000,0.9,0.3,NA,NA
2,cube0,16.0,28800,0.5,0.8,NA,NA
0,vector0,NA,NA,NA,NA,2.0,0.1
"""


def _folder(root: Path, name: str = "OPPROF_20260129023104_QHUFJZWUFYIGWZSD", us: str = "17.5") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "OpBasicInfo.csv").write_text(BASIC.format(us=us))
    (folder / "PipeUtilization.csv").write_text(PIPES)
    (folder / "visualize_data.bin").write_bytes(bytes(64))
    return folder


def test_a_kernel_has_its_time_its_blocks_and_its_clock(tmp_path: Path) -> None:
    (one,) = kernels_alone(_folder(tmp_path))
    assert (one.dur_ns, one.blocks, one.mhz, one.rated_mhz) == (17_500, 3, 1650, 1800)
    assert one.is_of("MatMulV2")
    assert not one.is_of("MatMul")


def test_pipes_are_those_of_the_longest_block_and_the_busiest_comes_first(tmp_path: Path) -> None:
    (one,) = kernels_alone(_folder(tmp_path))
    assert one.pipes == (("aic mte2", 0.8), ("aic cube", 0.5))
    assert one.slowest == pytest.approx(16 / 12)


def test_each_launch_of_a_folder_is_a_kernel_the_longest_first(tmp_path: Path) -> None:
    for number, us in (("0", "4"), ("1", "9")):
        _folder(tmp_path, f"OPPROF_1/MatMulV2/{number}", us)
    assert [one.dur_ns for one in kernels_alone(tmp_path)] == [9000, 4000]


def test_the_simulator_gives_the_cycles_of_its_pipes_and_no_time(tmp_path: Path) -> None:
    for name in ("core0.cubecore0", "core1.cubecore0"):
        core = tmp_path / "OPPROF_2" / "simulator" / name
        core.mkdir(parents=True)
        (core / f"{name}_instr_exe_2026.csv").write_text(
            "instr,addr,pipe,call_count,cycles,running_time(us),detail\n"
            "MMAD,0x10,CUBE,4,300,0,\nLOAD,0x14,MTE2,2,100,0,XD:X3=1\nALL,0x18,ALL,1,999,0,\n"
        )
    (one,) = kernels_alone(tmp_path)
    assert (one.name, one.dur_ns) == ("OPPROF_2", None)
    assert one.pipes == (("cube", 0.75), ("mte2", 0.25))


@pytest.mark.parametrize("text", ["", "\x00\x00", "Op Name\n", "a,b\n1,2\n"])
def test_a_folder_without_an_operator_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "OpBasicInfo.csv").write_text(text)
    with pytest.raises(InputError):
        kernels_alone(tmp_path)
