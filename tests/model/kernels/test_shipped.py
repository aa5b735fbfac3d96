"""Compiled code that a wheel brings along: chosen by processor or user, and known by name."""

import json
import platform
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
from repository import ROOT
from torch import nn

import sbmc
from sbmc.checks import BadInput
from sbmc.cli import kernel_check
from sbmc.islands.checkpoints import copy_islands
from sbmc.model.kernels.native import adam, build, planes, sgd, shipped, steps
from sbmc.model.kernels.native.libraries import LIBRARIES, forget_loaded
from sbmc.target.builder import build_target

MACHINE = platform.machine()
TOLERANCE = 1e-5

pytestmark = [
    pytest.mark.skipif(not build._compilers(), reason="there is no C compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="kernels are shipped for Linux"),
    pytest.mark.skipif(MACHINE not in ("x86_64", "aarch64"), reason="for other processors"),
]


def hook_module():
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the build hook puts into a wheel, from this machine's compiler and not optimised."""
    folder = tmp_path_factory.mktemp("kernels")
    hook = hook_module()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(hook.COMPILER, build._compilers()[0][0])
        hook.compile_kernels(shipped.SOURCES, folder, MACHINE, ("-O1", *hook.FLAGS[1:]))
    return folder


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Forget which code was loaded, before and after; call it to do so in between."""

    def clear():
        monkeypatch.setattr(planes, "_found", planes._found)  # put back in the end
        forget_loaded()

    monkeypatch.delenv("SBMC_NATIVE", raising=False)
    clear()
    yield clear
    clear()


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """The same in an installation, so that a test may change it."""
    copy = shutil.copytree(made, tmp_path / "libraries")
    monkeypatch.setattr(shipped, "FOLDER", copy)
    return copy


def edit(folder, change):
    path = folder / shipped.DESCRIPTION
    description = json.loads(path.read_text("utf-8"))
    change(description)
    path.write_text(json.dumps(description), "utf-8")


def choose(monkeypatch, forget, choice):
    monkeypatch.setenv("SBMC_NATIVE", choice)
    forget()


NETWORKS = {
    "chain": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 3, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3 * 16, 5),
            nn.Tanh(),
            nn.Linear(5, 3),
        ),
        (1, 8, 8),
    ),
    "head": (lambda: nn.Linear(17, 3), (17,)),
}


def problem(name):
    make, shape = NETWORKS[name]
    rng = torch.Generator().manual_seed(0)
    inputs = torch.randn(70, *shape, generator=rng)
    net = make()
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.3, generator=rng)
    return net, (inputs, torch.randint(3, (70,), generator=rng))


def far_apart(ours, theirs):
    """The largest difference, relative to the largest number."""
    pairs = zip(ours, theirs, strict=True)
    return max(float((a.double() - b.double()).abs().max() / b.abs().max()) for a, b in pairs)


def every_set_here(made):
    names = [each["name"] for each in json.loads((made / "kernels.json").read_text())["sets"]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipped, "FOLDER", made)
        usable = shipped.shipped_sets()
    assert usable == names[: len(usable)]
    return usable


@pytest.mark.parametrize("name", NETWORKS)
def test_every_set_gives_what_torch_gives(name, folder, forget, monkeypatch):
    net, data = problem(name)
    exact = build_target(net, data, prior_variance=1.0, dtype=torch.float64)
    positions = torch.randn(5, exact.dim, generator=torch.Generator().manual_seed(1))
    seeds = [torch.Generator().manual_seed(i) for i in range(5)]
    rows = torch.stack([torch.randperm(70, generator=rng)[:37] for rng in seeds])
    expected = exact(positions.double())
    sets = every_set_here(folder)
    assert sets
    for each in sets:
        choose(monkeypatch, forget, each)
        target = build_target(net, data, prior_variance=1.0)
        assert target.engine.kernel == name
        assert build.code_of(name).startswith(f"shipped {each}, ")
        assert far_apart(target(positions), expected) <= TOLERANCE
        # Mini-batches are other code.
        theta = target.prior.to_parameters(positions).contiguous()
        gradient, scale = torch.empty_like(theta), target.prior.scale.expand(target.dim)
        batches = target.engine.batch_kernel()
        value = batches(theta, rows, scale.contiguous(), gradient)
        for i in range(5):
            some = data[0][rows[i]], data[1][rows[i]]
            one = build_target(net, some, prior_variance=1.0, dtype=torch.float64)
            exactly = one(positions[i : i + 1].double())
            assert far_apart([value[i : i + 1], gradient[i : i + 1]], exactly) <= TOLERANCE


def test_noise_and_training_steps_of_every_set(folder, forget, monkeypatch):
    keys, draws = torch.tensor([3, 4]), torch.tensor([0, 7])
    streams = steps.Streams(2, keys, draws)
    expected = torch.from_numpy(steps.normal_by_numpy(streams, 133))
    for each in every_set_here(folder):
        choose(monkeypatch, forget, each)
        assert far_apart([steps.normal(streams, 133)], [expected]) <= TOLERANCE
        theta, gradient = (
            torch.linspace(-1, 1, 99).view(1, 99),
            torch.linspace(2, 3, 99).view(1, 99),
        )
        moments = torch.zeros(1, 99), torch.zeros(1, 99)
        numbers = adam.Adam(0.9, 0.999, 0.1 / (1 - 0.9), (1 - 0.999) ** 0.5, 1e-8, 1.0)
        before = theta.clone()
        adam.advance(numbers, theta, gradient, None, torch.zeros(99), moments)
        assert far_apart([theta], [before - 0.1]) <= TOLERANCE  # the first step is of length 0.1
        speed = torch.zeros(1, 99)
        theta = before.clone()
        sgd.advance(sgd.SGD(0.1, 0.9), theta, gradient, None, torch.zeros(99), speed)
        assert far_apart([theta], [before - 0.1 * gradient]) <= TOLERANCE


def test_it_is_used_at_once_and_without_a_compiler(folder, monkeypatch):
    monkeypatch.setattr(build, "_compilers", list)
    assert kernel_check.difference_from_torch() <= TOLERANCE
    best = every_set_here(folder)[-1]
    assert build.code_of("chain").startswith(f"shipped {best}, ")
    check = kernel_check.check_kernel()
    assert check.fault == ""
    assert check.lines["kernel"] == build.code_of("chain")
    assert check.lines["shipped"].endswith(best)


@pytest.mark.skipif(MACHINE != "x86_64", reason="levels are x86-64's")
def test_the_level_is_the_one_that_the_system_finds(folder):
    """glibc looks at the processor by itself, to choose libraries."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    text = subprocess.run([loader, "--help"], capture_output=True, text=True).stdout
    supported = re.findall(r"x86-64-v(\d) \(supported", text)
    if "x86-64-v" not in text:
        pytest.skip("this glibc does not say")
    expected = max([1, *map(int, supported)])
    assert every_set_here(folder) == ["x86-64", "x86-64-v3", "x86-64-v4"][: max(1, expected - 1)]


def test_a_set_that_the_processor_does_not_run_is_not_offered(folder):
    edit(folder, lambda found: found["sets"][-1].update(level=99))
    names = [each["name"] for each in json.loads((folder / "kernels.json").read_text())["sets"]]
    assert names[-1] not in shipped.shipped_sets()
    with pytest.raises(
        BadInput, match=r"`SBMC_NATIVE` must be one of 0, 1, compile.*shipped and run"
    ):
        shipped.find_shipped(names[-1])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: edit(folder, lambda found: found.update(sources="0")), "other sources"),
        (lambda folder: shutil.rmtree(folder), "brings none along"),
        (
            lambda folder: [path.write_bytes(b"no library") for path in folder.glob("*.so")],
            "cannot be loaded",
        ),
    ],
    ids=["other sources", "none", "damaged"],
)
def test_what_cannot_be_used_is_compiled_here(spoil, reason, folder, caplog):
    spoil(folder)
    with pytest.raises(shipped.NotShipped, match=reason):
        shipped.find_shipped()
    assert kernel_check.difference_from_torch() <= TOLERANCE
    assert build.code_of("chain").startswith("compiled ")


def test_the_compiler_can_be_asked_for_and_code_can_be_turned_off(folder, forget, monkeypatch):
    choose(monkeypatch, forget, "compile")
    assert kernel_check.difference_from_torch() <= TOLERANCE
    assert build.code_of("chain").startswith("compiled ")
    choose(monkeypatch, forget, "0")
    with pytest.raises(BadInput, match="SBMC_NATIVE=0"):
        kernel_check.difference_from_torch()


@pytest.mark.parametrize("installed", [True, False])
def test_a_choice_that_there_is_not_is_refused_in_words(installed, folder, monkeypatch):
    if not installed:
        shutil.rmtree(folder)
    monkeypatch.setenv("SBMC_NATIVE", "x86-64-v9")
    net, data = problem("chain")
    others = "there are no others" if installed else "this installation brings none along"
    with pytest.raises(BadInput, match=rf"`SBMC_NATIVE` must be .*{others}.* 'x86-64-v9'"):
        sbmc.fit(net, data, sampler=sbmc.HMC(steps=1), particles=2, progress=False)


def run(folder=None, islands=1, **options):
    net, data = problem("chain")
    compute = sbmc.Compute(checkpoint=folder, **options)
    sampler = sbmc.HMC(steps=2, leapfrog=2)
    return sbmc.fit(
        net, data, sampler=sampler, particles=2, islands=islands, compute=compute, progress=False
    )


def test_settings_name_the_code_and_a_run_goes_on_with_the_same(
    folder, forget, monkeypatch, tmp_path
):
    place = tmp_path / "run"
    first = run(place)
    begun_with = first.settings["kernel_code"]
    assert begun_with == build.code_of("chain")
    source = shipped.source_digest()[: shipped.DIGITS]
    assert re.fullmatch(rf"shipped {shipped.shipped_sets()[-1]}, \w+ [\d.]+, {source}", begun_with)
    choose(monkeypatch, forget, "compile")
    remedy = f"set SBMC_NATIVE={shipped.shipped_sets()[-1]} to go on with the code"
    words = rf"kernel_code is '{begun_with}' there and 'compiled .*' here.*{remedy}"
    with pytest.raises(BadInput, match=words):
        run(place, islands=2)
    choose(monkeypatch, forget, shipped.shipped_sets()[-1])
    again = run(place, islands=2)
    assert torch.equal(again.positions[:1], first.positions)


def test_a_run_that_was_compiled_here_or_done_by_torch_says_how_to_go_on(
    folder, forget, monkeypatch, tmp_path
):
    choose(monkeypatch, forget, "compile")
    first = run(tmp_path / "compiled")
    assert first.settings["kernel_code"].startswith("compiled ")
    choose(monkeypatch, forget, "1")
    with pytest.raises(BadInput, match="set SBMC_NATIVE=compile to go on"):
        run(tmp_path / "compiled", islands=2)
    choose(monkeypatch, forget, "compile")
    assert torch.equal(run(tmp_path / "compiled", islands=2).positions[:1], first.positions)
    choose(monkeypatch, forget, "0")
    assert run(tmp_path / "torch").settings["kernel_code"] is None
    with pytest.raises(BadInput, match="set SBMC_NATIVE=compile to go on"):
        run(tmp_path / "compiled", islands=2)


def test_code_of_another_machine_cannot_be_chosen_here(folder):
    for code in ("shipped x86-64-v4, zig 0.1.0, 0123456789ab",):
        assert shipped.how_to_have(code).startswith("go on with the installation")
    shutil.rmtree(folder)
    code = "compiled -march=native, gcc 1.0, 0123456789ab"
    assert shipped.how_to_have(code).startswith("go on with the installation")


def test_islands_of_two_kinds_of_code_can_be_merged(folder, forget, monkeypatch, tmp_path):
    here = run(tmp_path / "here")
    choose(monkeypatch, forget, "compile")
    there = run(tmp_path / "there", first_island=1)
    assert here.settings["kernel_code"] != there.settings["kernel_code"]
    assert sbmc.merge([here, there]).positions.shape[0] == 2
    both = run(tmp_path / "both", islands=2)
    assert len(both.positions) == 2
    assert copy_islands(tmp_path / "here", tmp_path / "both") == []  # it has all of them


def test_a_posterior_from_before_the_code_was_named_is_read_and_merged(tmp_path):
    here, there = run(), run(first_island=1)
    del here.settings["kernel_code"]
    here.save(tmp_path / "earlier.sbmc")
    earlier = sbmc.load(tmp_path / "earlier.sbmc", problem("chain")[0])
    assert "kernel_code" not in earlier.settings
    assert sbmc.merge([earlier, there]).positions.shape[0] == 2


def test_runs_without_compiled_code_name_none(folder):
    net, data = problem("chain")
    common = {"sampler": sbmc.HMC(steps=1), "particles": 2, "progress": False}
    compute = sbmc.Compute(dtype=torch.float64)
    assert sbmc.fit(net, data, compute=compute, **common).settings["kernel_code"] is None


def test_steps_on_mini_batches_are_compiled_code_too(folder):
    net = nn.Sequential(nn.Linear(3, 4), nn.SiLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    data = torch.randn(20, 3), torch.arange(20) % 2
    sampler = sbmc.SGHMC(epochs=2, batch_size=10)
    posterior = sbmc.fit(net, data, sampler=sampler, particles=2, progress=False)
    assert posterior.settings["kernel"] is None
    assert posterior.settings["kernel_code"] == build.code_of("steps")


def test_the_hook_compiles_as_the_library_does():
    hook = hook_module()
    assert hook.FLAGS == build.FLAGS
    assert hook.source_digest(shipped.SOURCES) == shipped.source_digest()
    assert shipped.SOURCES.relative_to(ROOT).as_posix() == hook.NATIVE
    assert f"{hook.ZIG}\n" in (ROOT / "constraints.txt").read_text("utf-8")


def test_every_function_is_in_one_library(folder):
    for source, functions in LIBRARIES.values():
        library = build.load(source, functions)
        assert Path(library._name).parent == folder


@pytest.mark.parametrize(
    ("switch", "version", "compiled"),
    [("1", "standard", True), ("1", "editable", False), ("", "standard", False)],
)
def test_the_hook_works_only_when_it_is_asked(switch, version, compiled, monkeypatch, tmp_path):
    hook = hook_module()
    monkeypatch.setenv(hook.SWITCH, switch)
    monkeypatch.delenv(hook.COMPILER, raising=False)
    made = tmp_path / "kernels-any.so"
    made.write_bytes(b"")
    monkeypatch.setattr(hook, "compile_kernels", lambda *arguments: [made])
    plugin = hook.CompiledKernels(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    assert plugin.dependencies() == ([hook.ZIG] if switch else [])
    data = {"force_include": {}, "pure_python": True}
    plugin.initialize(version, data)
    plugin.finalize(version, data, "")
    inside = f"{hook.NATIVE}/{shipped.FOLDER.name}/{made.name}"
    assert data["force_include"] == ({str(made): inside} if compiled else {})
    assert data["pure_python"] is not compiled
    assert data.get("tag") == (f"py3-none-linux_{MACHINE}" if compiled else None)
