"""`sbmc serve`: wrong options in one line, the address, and what is said about it."""

import socket

import pytest
from starlette.testclient import TestClient

from sbmc_serve import command, digits, running
from sbmc_serve.limits import Limits


@pytest.fixture
def served(monkeypatch):
    """Applications that would have been run, instead of running them."""
    found = []

    def note(application, listener, seconds):
        with TestClient(application) as client:
            found.append((client.get("/info", headers={"Host": "127.0.0.1"}), listener, seconds))

    monkeypatch.setattr(running, "answer_until_stopped", note)
    return found


@pytest.fixture
def file(tmp_path, table):
    path = tmp_path / "my.sbmc"
    table.save(path)
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "`files` must be posteriors' files, or --digits without files, but got nothing"),
        (["a.sbmc", "--digits"], "but got both"),
        (["none.sbmc"], "`file` must be a posterior's file that exists, but got 'none.sbmc'"),
        (["a.sbmc", "--port", "65536"], "`port` must be at most 65,535"),
        (["a.sbmc", "--port", "http"], "`port` must be a whole number of at least 0"),
        (["a.sbmc", "--host", "  "], "`host` must be an address of this machine"),
        (["a.sbmc", "--host", "a\0b"], "`host` must be an address of this machine"),
        (["a.sbmc", "--max-rows", "0"], "`max_rows` must be a whole number of at least 1"),
        (["a.sbmc", "--timeout", "0"], "`timeout` must be a positive number of at most 86,400"),
        (["a.sbmc", "--timeout", "soon"], "`timeout` must be"),
        (["a.sbmc", "--queue", "-1"], "`queue` must be"),
        (["a.sbmc", "--abstain-above", "-1", "--port", "0"], "`file` must be"),
    ],
)
def test_wrong_options_are_refused_in_one_line(sbmc, served, arguments, words):
    if "--port" not in arguments:
        arguments = [*arguments, "--port", "0"]
    code, _, err = sbmc("serve", *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert served == []


def test_a_file_is_served_at_the_address_that_is_printed(sbmc, served, file):
    code, out, err = sbmc("serve", file, "--port", "0", "--timeout", "3")
    assert code == 0
    ((info, listener, seconds),) = served
    assert seconds == 3.0
    assert listener.fileno() == -1  # closed
    assert out.startswith("sbmc: serving at http://127.0.0.1:")
    assert "health of my:" in err
    assert "stopped" in err
    assert info.json()["default"] == "my"


def test_files_of_one_name_are_refused(sbmc, served, file, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "my.sbmc").write_bytes(file.read_bytes())
    code, _, err = sbmc("serve", file, "other/my.sbmc", "--port", "0")
    assert code == 2
    assert "of different names, by which requests choose, but got 'my' twice" in err


def test_a_negative_threshold_is_refused_before_anything_is_served(sbmc, served, file):
    code, _, err = sbmc("serve", file, "--abstain-above", "-1", "--port", "0")
    assert code == 2
    assert "`abstain_above` must be a number of at least 0" in err
    assert served == []


def test_an_address_for_others_is_said_in_words(sbmc, served, file):
    code, _, err = sbmc("serve", file, "--host", "0.0.0.0", "--port", "0")
    assert code == 0
    assert "0.0.0.0 can be reached by other machines, and nobody is asked for a password" in err
    code, _, err = sbmc("serve", file, "--port", "0")
    assert "password" not in err


def test_a_port_that_is_taken_is_named(sbmc, served, file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = sbmc("serve", file, "--port", port)
    assert code == 2
    assert f"`port` must be free at 127.0.0.1, but got {port}" in err


def test_quiet_prints_the_address_alone(sbmc, served, file):
    code, out, err = sbmc("serve", file, "--port", "0", "--quiet")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1


def test_without_the_extra_it_is_said_what_to_install(sbmc, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, _, err = sbmc("serve", "my.sbmc")
    assert code == 2
    assert "pip install 'sbmc[serve]'" in err
    assert err.count("\n") == 1


def test_digits_are_made_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "VALUES_OF_S", (0.0, 0.1))
    monkeypatch.setattr(digits, "PARTICLES", 2)
    made = digits.digits_posteriors(tmp_path / "new", progress=False)
    assert list(made) == ["s=0.1", "s=0"]
    assert len(list((tmp_path / "new").iterdir())) == 2
    monkeypatch.setattr(digits, "fit", None)
    again = digits.digits_posteriors(tmp_path / "new", progress=False)
    for name in made:
        assert again[name].positions.equal(made[name].positions)
        assert again[name].health.word == made[name].health.word
    rows = digits.digits.load().test[0][:3]
    assert again["s=0"].predict(rows).epistemic.abs().max() == 0
    monkeypatch.undo()
    monkeypatch.setattr(digits, "VALUES_OF_S", (0.0, 0.1))
    monkeypatch.setattr(digits, "PARTICLES", 2)
    damaged = next((tmp_path / "new").glob("*s0.1*"))
    damaged.write_bytes(b"damaged")
    mended = digits.digits_posteriors(tmp_path / "new", progress=False)
    assert mended["s=0.1"].positions.equal(made["s=0.1"].positions)


def test_the_command_and_python_have_the_same_limits():
    import inspect

    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(command.serve_command).parameters.items()
    }
    limits = Limits()
    assert int(defaults["max_rows"]) == limits.rows
    assert int(defaults["max_bytes"]) == limits.bytes
    assert float(defaults["timeout"]) == limits.seconds
    assert int(defaults["queue"]) == limits.queue
    assert int(defaults["batch_rows"]) == limits.batch_rows
