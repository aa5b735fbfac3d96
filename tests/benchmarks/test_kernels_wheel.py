"""The comparison of shipped kernels with native code: what each of them has to reach."""

import os
import zipfile

import pytest
import torch

from benchmarks import kernels_wheel
from sbmc.model.kernels.native import build, shipped


def record(speed, like_for_like):
    row = {"title": "a head", "kind": "all data", "milliseconds": 1.5}
    return {
        "sets": ["x86-64", "x86-64-v3"],
        "chosen": "x86-64-v3",
        "native": "compiled -march=native, gcc 12.2.0, 0123456789ab",
        "repeats": 3,
        "threads": 1,
        "load": 0.5,
        "hardware": {"processor": "some"},
        "rows": [{**row, "speed": speed, "like_for_like": like_for_like}],
    }


def test_the_chosen_set_is_held_against_native_code_and_every_set_against_its_kind():
    good = record({"x86-64": 0.3, "x86-64-v3": 0.81}, {"x86-64": 1.4, "x86-64-v3": 0.9})
    assert kernels_wheel.find_failures(good) == []
    slow = record({"x86-64": 0.3, "x86-64-v3": 0.79}, {"x86-64": 0.5, "x86-64-v3": 0.9})
    failures = kernels_wheel.find_failures(slow)
    assert len(failures) == 2
    assert "0.79 times the speed (x86-64-v3, native code), 0.8 needed" in failures[0]
    assert "0.50 times the speed (x86-64, compiled here)" in failures[1]


def test_the_table_has_both_comparisons():
    table = kernels_wheel.kernels_wheel_table(
        record({"x86-64": 0.3, "x86-64-v3": 0.81}, {"x86-64": 1.4, "x86-64-v3": 0.9})
    )
    assert "| a head | all data | 1.500 | 0.30× | 0.81× | 1.40× | 0.90× |" in table
    widths = {line.count("|") for line in table.splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_a_wheel_stands_in_for_an_installation(tmp_path):
    wheel, before = tmp_path / "sbmc.whl", shipped.FOLDER
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sbmc/model/kernels/native/libraries/kernels.json", "{}")
        archive.writestr("sbmc/__init__.py", "")
    with kernels_wheel.unpacked(wheel):
        assert [path.name for path in shipped.FOLDER.iterdir()] == ["kernels.json"]
    assert before == shipped.FOLDER
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("sbmc/__init__.py", "")
    with pytest.raises(SystemExit):
        kernels_wheel.main(["--wheel", str(wheel), "--quick"])


@pytest.mark.skipif(not build._compilers(), reason="there is no C compiler")
@pytest.mark.parametrize("kind", ["all data", "batches of 50"])
def test_native_code_is_timed(kind, monkeypatch):
    monkeypatch.setenv("SBMC_NATIVE", "0")
    row = kernels_wheel.measure("mlp", kind, [], repeats=1, quick=True)
    assert row["milliseconds"] > 0
    assert row["speed"] == {}
    assert os.environ["SBMC_NATIVE"] == "0"


def test_a_pass_in_mini_batches_sees_every_example_once(monkeypatch):
    monkeypatch.delenv("SBMC_NATIVE", raising=False)
    if not build._compilers():
        pytest.skip("there is no C compiler")
    workload = kernels_wheel.get_workload("mlp", True)
    data = kernels_wheel.make_examples(workload, 70)
    target = kernels_wheel.build_way(workload, data, "fused")
    seen = []
    inner = target.engine.batch_kernel()

    def spy(theta, batch, factor, out):
        seen.append(batch)
        return inner(theta, batch, factor, out)

    monkeypatch.setattr(target.engine, "batch_kernel", lambda: spy)
    kernels_wheel.batch_passes(target, torch.zeros(2, target.dim))()
    for rows in torch.cat(seen, 1):
        assert sorted(rows.tolist()) == list(range(70))
