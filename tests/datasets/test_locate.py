"""The order of the places, and the message when a file is in none of them."""

from pathlib import Path

import pytest

from sbmc.checks import BadInput
from sbmc.datasets.locate import cache_dir, locate
from sbmc_studies.data import DataNotFound, load_dataset, mnist7


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The three places, as empty folders of this test's own."""
    folders = {name: tmp_path / name for name in ("given", "shared", "cache/sbmc")}
    for folder in folders.values():
        folder.mkdir(parents=True)
    monkeypatch.setenv("SBMC_DATA", str(folders["shared"]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folders


def never():
    raise AssertionError("a file that is there was fetched")


def test_the_order_of_the_places(places):
    names = list(places)
    for folder in places.values():
        (folder / "a.npz").write_text("data")
    for name in names:
        assert locate("a.npz", places["given"], fetch=never) == places[name] / "a.npz"
        (places[name] / "a.npz").unlink()
    with pytest.raises(DataNotFound):
        locate("a.npz", places["given"])


def test_without_data_dir_the_environment_comes_first(places):
    for folder in places.values():
        (folder / "a.npz").write_text("data")
    assert locate("a.npz", fetch=never) == places["shared"] / "a.npz"


def test_a_folder_of_that_name_is_no_file(places):
    (places["given"] / "a.npz").mkdir()
    (places["shared"] / "a.npz").write_text("data")
    assert locate("a.npz", places["given"], fetch=never) == places["shared"] / "a.npz"


def test_fetching_comes_last(places):
    fetched = places["cache/sbmc"] / "a.npz"
    assert locate("a.npz", places["given"], fetch=lambda: fetched) == fetched


def test_the_message_lists_every_place_and_the_way_out(places):
    def no_network():
        raise OSError("Temporary failure in name resolution\nmore lines")

    with pytest.raises(DataNotFound) as refused:
        locate("a.npz", str(places["given"]), fetch=no_network)
    assert str(refused.value) == (
        f"`a.npz` was not found. Looked in: data_dir ({places['given']}); "
        f"$SBMC_DATA ({places['shared']}); the cache ({places['cache/sbmc']}); "
        "a download (failed: Temporary failure in name resolution). Put the file into one of these "
        "folders, or name its folder with `data_dir` (`--data-dir` in a shell) or $SBMC_DATA."
    )
    assert isinstance(refused.value.__cause__, OSError)


def test_an_unset_variable_is_named(places, monkeypatch):
    monkeypatch.delenv("SBMC_DATA")
    with pytest.raises(DataNotFound) as refused:
        locate("a.npz")
    looked = f"Looked in: $SBMC_DATA (not set); the cache ({places['cache/sbmc']}). Put"
    assert looked in str(refused.value)


def test_not_found_is_both_bad_input_and_file_not_found(places):
    with pytest.raises(BadInput):
        locate("a.npz")
    with pytest.raises(FileNotFoundError):
        locate("a.npz")


def test_a_data_dir_that_is_no_folder_is_refused(places):
    with pytest.raises(BadInput) as refused:
        locate("a.npz", "/no/such/folder")
    expected = "`data_dir` must be an existing folder, but got '/no/such/folder'."
    assert str(refused.value) == expected


def test_a_data_set_without_its_file_says_so(places, monkeypatch):
    def no_network():
        raise TimeoutError

    monkeypatch.setattr(mnist7, "fetch", no_network)
    with pytest.raises(DataNotFound, match=r"`mnist.npz` was not found.*failed: TimeoutError"):
        load_dataset("mnist7", data_dir=places["given"])


def test_the_cache_without_xdg(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == Path.home() / ".cache" / "sbmc"
