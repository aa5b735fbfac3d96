"""Groups of options, and the reading of their text."""

from dataclasses import dataclass, fields
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from sbmc.checks import BadInput
from sbmc.cli.options import (
    Text,
    given_options,
    read_count,
    read_number,
    read_numbers,
    with_option_groups,
)
from sbmc_studies.commands.options import ExecutionOptions, join_settings
from sbmc_studies.experiments.execution import Execution


@dataclass(frozen=True)
class Size:
    width: Annotated[Text, typer.Option(help="Across.")] = None
    height: Annotated[Text, typer.Option(help="Upwards.")] = None
    large: Annotated[bool, typer.Option("--large", help="Twice of both.")] = False


@pytest.fixture
def app():
    app = typer.Typer(add_completion=False)

    @app.command()
    @with_option_groups
    def draw(
        name: Annotated[str, typer.Argument()], *, first: Text = "1", size: Size, last: Text = "9"
    ):
        """Draw a rectangle."""
        print(name, first, size, last)

    return app


def test_a_group_is_given_as_options_and_taken_as_an_object(app):
    done = CliRunner().invoke(app, ["a", "--height", "3", "--large", "--first", "2"])
    assert done.exit_code == 0, done.output
    assert done.output == f"a 2 {Size(None, '3', True)} 9\n"
    done = CliRunner().invoke(app, ["a"])
    assert done.output == f"a 1 {Size()} 9\n"


def test_options_of_a_group_are_in_the_help(app):
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Draw a rectangle." in text
    for words in ("--width", "Across.", "--height", "--large", "--first", "--last"):
        assert words in text
    assert "--size" not in text
    assert CliRunner().invoke(app, ["a", "--size", "3"]).exit_code == 2


def test_options_that_are_not_given_are_left_out():
    assert given_options(Size(height="3")) == {"height": "3", "large": False}


def test_numbers_are_read_or_refused():
    assert read_count("folds", " 5 ") == 5
    assert read_count("seed", "0", least=0) == 0
    for text in ("", None, "x", "-1", "1.5", "1"):
        with pytest.raises(BadInput, match="`folds` must be a whole number of at least 2"):
            read_count("folds", text, least=2)
    assert read_numbers("v", "1/40,1") == (0.025, 1.0)
    assert read_numbers("v", None) is None
    for text in ("", "1,,2", "1/0", "one"):
        with pytest.raises(BadInput, match="`v` must be numbers with commas"):
            read_numbers("v", text)
    assert read_number("v", "1/4") == 0.25
    with pytest.raises(BadInput, match="`v` must be one number"):
        read_number("v", "1,2")


def test_the_command_line_has_every_option_of_execution():
    options = [each.name for each in fields(ExecutionOptions)]
    assert options == [each.name for each in fields(Execution)]
    texts = dict.fromkeys(options, "1") | {"executor": "ray", "address": "auto"}
    values = ExecutionOptions(**texts).read()
    assert Execution(**values).build_executor().address == "auto"
    assert ExecutionOptions().read() == {}


def test_a_setting_is_given_once():
    assert join_settings({"s": "0.1"}, ["leapfrog = 2"]) == {"s": "0.1", "leapfrog": "2"}
    for options, assignments in (({"s": "0.1"}, ["s=0.2"]), ({}, ["s=0.1", "s=0.2"])):
        with pytest.raises(BadInput, match=r"`s` must be given once \(it is 0.1 already\)"):
            join_settings(options, assignments)


@pytest.mark.parametrize("command", ["head", "explain", "embed", "run", "tune", "resume"])
def test_help_says_of_numbers_that_they_are_numbers(command):
    from sbmc.cli.main import _all_commands

    numeric = {"particles", "islands", "epochs", "seed", "steps", "s", "workers", "folds", "limit"}
    found = _all_commands().commands[command]
    parts = list(getattr(found, "commands", {}).values()) or [found]
    kinds = {
        option.name: option.metavar
        for part in parts
        for option in part.params
        if option.name in numeric
    }
    assert kinds
    assert set(kinds.values()) <= {"INTEGER", "NUMBER", "NUMBERS"}
