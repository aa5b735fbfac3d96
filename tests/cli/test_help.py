"""`--help`: every command has examples, which a test of the README's commands parses."""

import pytest

from sbmc.cli.help import examples_of
from sbmc.cli.main import _all_commands


def commands(command, name="sbmc"):
    """All commands that do something, by the words that call them."""
    below = getattr(command, "commands", {})
    if not below:
        yield name, command
    for word, each in below.items():
        yield from commands(each, f"{name} {word}")


COMMANDS = dict(commands(_all_commands()))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_of_this_command(name, sbmc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    examples = list(examples_of(COMMANDS[name]))
    assert examples
    assert all(line.startswith(name) for line in examples)
    assert all(len(line) <= 76 for line in examples), "a terminal of 80 columns would break it"
    code, output, errors = sbmc(*name.split()[1:], "--help")
    assert (code, errors) == (0, "")
    assert all(f"$ {line}" in output for line in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_shown_by_the_name_of_a_python_type(name, sbmc, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    output = sbmc(*name.split()[1:], "-h")[1]
    assert "--help" in output
    for kind in ("<bool>", "<str>", "<path>", "list["):
        assert kind not in output


def test_what_is_too_much_is_named(sbmc):
    for given, named in ((["extra"], "'extra'"), (["a (b)", "c"], "'a (b) c'")):
        code, _, errors = sbmc("doctor", *given)
        assert code == 2
        assert f"but got {named} besides." in errors


def test_a_huge_count_is_refused_before_anything_is_trained(sbmc, tmp_path):
    code, _, errors = sbmc("run", "digits", "--islands", "1e30", "--out", tmp_path / "runs")
    assert code == 2
    assert "`islands` must be at most 1,000,000,000, but got '1e30'." in errors
    assert not (tmp_path / "runs").exists()


def test_options_of_a_run_are_in_groups(sbmc):
    output = sbmc("run", "--help")[1]
    for heading in ("Settings of the method", "Of the gauntlet and of tables", "How islands"):
        assert f"─ {heading}" in output


def test_commands_are_in_groups(sbmc):
    output = sbmc("--help")[1]
    own, _, studies = output.partition("The paper's studies")
    assert "doctor" in own.partition("Your own network")[2]
    assert "report" in own
    assert "experiments" in studies
