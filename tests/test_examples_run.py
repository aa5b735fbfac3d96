"""Every example runs, in its quick setting, and prints what its page promises."""

import forked
import pytest
from repository import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "digits.py": "predicts the same bits",
    "last_layer.py": "520 of 4680 parameters sampled",
    "regression.py": "epistemic sd inside the gap",
}


def test_every_example_is_known():
    assert [path.name for path in EXAMPLES] == sorted(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    done = forked.run(["-W", "error", path, "--quick"], cwd=tmp_path, check=True)
    assert SAYS[path.name] in done.stdout
    assert not list(tmp_path.iterdir())
