"""The spec of a run: one form for equal runs, JSON in and out, words for what is wrong."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from repository import RECORDS
from study_specs import make_spec

from sbmc.checks import BadInput
from sbmc_studies.experiments.execution import Execution
from sbmc_studies.experiments.run_spec import RunSpec, records_folder, run_folder
from sbmc_studies.records.record import read_record

FULL = make_spec(
    "digits",
    "s-hmc",
    {"islands": 4, "trajectory": "pi/2"},
    7,
    also_islands=(2, 1),
    confidence=True,
    save_posterior=True,
    execution=Execution(executor="ray", cpus=0.5, retries=0, checkpoint_every=None),
    data_dir="/data",
)


@pytest.mark.parametrize("spec", [FULL, make_spec("digits", "map", {})], ids=str)
def test_json_in_and_out(spec):
    text = json.dumps(spec.to_json(), allow_nan=False)
    again = RunSpec.from_json(json.loads(text))
    assert again == spec
    assert again.hash == spec.hash
    assert json.dumps(again.to_json()) == text
    assert isinstance(again.execution, Execution)


def test_fields_with_a_default_may_be_missing():
    content = {"experiment": "digits", "method": "map", "settings": {"islands": 1}, "seed": 0}
    assert RunSpec.from_json(content) == RunSpec("digits", "map", {"islands": 1}, 0)


@pytest.mark.parametrize(
    ("change", "messages"),
    [
        ({"sead": 1}, ["`sead` must be left out", "Did you mean 'seed'?", "`sbmc run`"]),
        ({"colour": "red"}, ["`colour` must be left out", "'red'", "Undo what was edited"]),
        ({"seed": "first"}, ["seed is 'first'", "Undo what was edited"]),
        ({"seed": -1}, ["`seed` must be a non-negative integer", "-1"]),
        ({"settings": {}}, ["`islands` must be a positive integer"]),
        ({"settings": [1]}, ["settings is [1]"]),
        ({"also_islands": "all"}, ["`also_islands` must be a list of integers", "'all'"]),
        ({"also_islands": [1.5]}, ["`also_islands` must be a list of integers"]),
        ({"also_islands": [5]}, ["between 1 and the number of islands (4)", "5"]),
        ({"also_islands": [0]}, ["between 1 and the number of islands (4)", "0"]),
        ({"confidence": "yes"}, ["confidence is 'yes'"]),
        ({"data_dir": 3}, ["data_dir is 3"]),
        ({"execution": {"retries": -1}}, ["`execution`", "`retries` must be", "`{}`"]),
        ({"execution": {"colour": 1}}, ["`execution`", "'colour'", "`{}`"]),
    ],
    ids=str,
)
def test_what_was_edited_is_refused_with_a_remedy(change, messages):
    with pytest.raises(BadInput) as refused:
        RunSpec.from_json({**FULL.to_json(), **change})
    for message in messages:
        assert message in str(refused.value)


@pytest.mark.parametrize("missing", ["experiment", "method", "settings", "seed"])
def test_what_is_missing_is_named(missing):
    content = FULL.to_json()
    del content[missing]
    with pytest.raises(BadInput, match=f"{missing} is missing"):
        RunSpec.from_json(content)
    with pytest.raises(BadInput, match="a JSON object"):
        RunSpec.from_json([content])


def test_equal_runs_have_equal_specs():
    assert FULL.also_islands == (1, 2)
    assert replace(FULL, also_islands=(2, 1, 2, 4)) == FULL  # the run itself has a record anyway
    assert replace(FULL, seed=8) != FULL


def test_the_folder_is_decided_by_settings_and_seed_alone():
    out = Path("runs")
    folder = FULL.folder(out)
    assert folder == run_folder(out, "digits", "s-hmc", FULL.hash, 7)
    assert records_folder(folder) == out
    assert replace(FULL, execution=Execution(), confidence=False).folder(out) == folder
    settings = {**FULL.settings, "first_island": None, "added_later": None}
    assert replace(FULL, settings=settings).folder(out) == folder
    for other in ({"seed": 8}, {"method": "s-smc"}, {"settings": {**settings, "s": 0.3}}):
        assert replace(FULL, **other).folder(out) != folder


def test_prefixes_are_runs_of_the_first_islands():
    prefixes = FULL.with_prefixes()
    assert list(prefixes) == [4, 1, 2]
    assert {number: each.islands for number, each in prefixes.items()} == {4: 4, 1: 1, 2: 2}
    assert prefixes[4].hash == FULL.hash
    assert prefixes[1] == replace(FULL.first(1), also_islands=())
    assert len({each.hash for each in prefixes.values()}) == 3


def test_every_committed_record_is_found_by_the_spec_of_its_settings():
    paths = sorted(RECORDS.rglob("record.json"))
    assert len(paths) > 100
    for path in paths:
        record = read_record(path)
        spec = RunSpec(record.experiment, record.method, record.settings, record.seed)
        assert spec.folder(RECORDS) / "record.json" == path
