from dataclasses import asdict

import pytest

import sbmc
from sbmc.checks import BadInput
from sbmc_studies.experiments.execution import Execution


def test_an_executor_is_built_from_what_is_said():
    assert Execution().build_executor() == sbmc.InProcess()
    assert Execution(workers=3).build_executor() == sbmc.Processes(workers=3)
    assert Execution(executor="processes").build_executor() == sbmc.Processes()
    assert Execution(address="auto").build_executor() == sbmc.Ray(address="auto")
    assert Execution(cpus=2, gpus=0.5).build_executor() == sbmc.Ray(cpus=2, gpus=0.5)
    assert Execution(executor="ray", workers=4).build_executor() == sbmc.Ray(workers=4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": "dask"}, "`executor` must be one of"),
        ({"executor": "processes", "address": "auto"}, "`address` must be left out"),
        ({"executor": "in-process", "workers": 2}, "`workers` must be left out"),
        ({"workers": 2, "cpus": 1}, "`cpus` must be left out with the executor processes"),
        ({"workers": 0}, "`workers` must be a positive integer"),
        ({"retries": -1}, "`retries` must be a non-negative integer"),
        ({"retries": 1.5}, "`retries` must be a non-negative integer"),
        ({"checkpoint_every": -1}, "`checkpoint_every` must be a number of seconds"),
        ({"checkpoint_every": float("nan")}, "`checkpoint_every` must be a number of seconds"),
        ({"checkpoint_every": "often"}, "`checkpoint_every` must be a number of seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(options, words):
    with pytest.raises(BadInput, match=words):
        Execution(**options)


def test_the_checkpoint_is_in_the_folder_of_the_run(tmp_path):
    assert Execution(checkpoint_every=5).checkpoint_in(tmp_path) == sbmc.CheckpointAt(
        tmp_path / "checkpoint", 5
    )
    assert Execution().checkpoint_in(None) is None
    assert Execution(checkpoint_every=None).checkpoint_in(tmp_path) is None
    assert not Execution(checkpoint_every=None).saves_checkpoints


def test_a_change_of_executor_drops_the_options_of_the_other():
    ray = Execution(executor="ray", address="auto", cpus=2, retries=7, checkpoint_every=3)
    assert ray.changed() == ray
    assert ray.changed(workers=4, executor=None) == Execution(
        executor="ray", address="auto", cpus=2, retries=7, checkpoint_every=3, workers=4
    )
    local = ray.changed(executor="processes", workers=4)
    assert local == Execution(executor="processes", workers=4, retries=7, checkpoint_every=3)
    assert ray.changed(checkpoint_every=0).checkpoint_every == 0
    assert Execution.from_json(asdict(ray)) == ray
