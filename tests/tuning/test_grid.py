import pytest

from sbmc.checks import BadInput
from sbmc.tuning.grid import S_GRID, V_GRID, beyond, s_grid, v_grid


def test_grids_are_sorted_and_have_every_value_once():
    assert v_grid() == V_GRID
    assert s_grid() == S_GRID
    assert v_grid([1, 0.1, 1.0]) == (0.1, 1.0)
    assert s_grid(0.1) == (0.1,)


@pytest.mark.parametrize(
    ("grid", "values"),
    [(v_grid, 0.0), (v_grid, [-1]), (v_grid, []), (v_grid, float("inf")), (v_grid, "1"),
     (s_grid, 1.1), (s_grid, [True]), (s_grid, float("nan"))],
)  # fmt: skip
def test_values_that_are_refused(grid, values):
    with pytest.raises(BadInput, match="must be"):
        grid(values)


def test_a_grid_goes_on_beyond_its_edge_in_its_own_steps():
    assert beyond(V_GRID, 10.0) == 30.0
    assert beyond((*V_GRID, 30.0), 30.0) == 100.0
    assert beyond(V_GRID, 0.01) == 0.003
    assert beyond(V_GRID, 0.1) is None
    assert beyond((0.1,), 0.1) is None
    # Steps so small that rounding would not leave the grid are not rounded.
    assert beyond((1.0, 1.1), 1.1) == pytest.approx(1.21)
    assert beyond((1.0, 1.1), 1.0) == pytest.approx(1 / 1.1)
