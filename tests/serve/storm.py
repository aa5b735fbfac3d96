"""Wrong requests of every kind, in a fixed order; each has to be refused in words."""

import json
import random
from collections.abc import Iterator

GOOD = {"inputs": [[[0.5, 0.0, -1.0], [1.0, 2.0, 0.25]]]}
JSON = {"Content-Type": "application/json"}
ODD = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        10**400,
        -(10**30),
        1e308,
        "",
        "zzz",
        "1",
        "é",
        "\ud800",
        "\0",
    ),
    *([], [[]], [None], {}, {"a": 1}, [1, [2]], [[[1]]], "x" * 1000, {"inputs": [[1]]}),
]


def kinds() -> Iterator[tuple[str, bytes, str]]:
    """A kind of mistake, a body that makes it, and words of the refusal."""
    row = GOOD["inputs"][0]
    yield "nothing", b"", "`body` must be JSON, but got nothing"
    yield "text", b"hello", "`body` must be JSON, but got text that is not JSON"
    yield "cut", json.dumps(GOOD).encode()[:-5], "line 1, column"
    yield "two values", b"{} {}", "Extra data"
    yield "no UTF-8", b'{"inputs": "\xff"}', "in UTF-8, but got other bytes, from byte 12 on"
    yield "UTF-16", json.dumps(GOOD).encode("utf-16"), "in UTF-8"
    yield "NaN", b'{"inputs": [[[NaN, 0, 0], [0, 0, 0]]]}', "numbers are finite, but got NaN"
    yield "infinity", b'{"inputs": [[[-Infinity, 0, 0], [0, 0, 0]]]}', "but got -Infinity"
    yield "overflow", b'{"inputs": [[[1e999, 0, 0], [0, 0, 0]]]}', "`inputs[0][0][0]` must be a num"
    yield "digits", b'{"inputs": ' + b"9" * 5000 + b"}", "an integer of thousands of digits"
    yield (
        "large",
        b'{"inputs": [[[0, 0, 0], [0, 1' + b"0" * 400 + b", 0]]]}",
        "that float32 can hold",
    )
    yield (
        "float32",
        b'{"inputs": [[[0, 0, 0], [0, 0, 1e200]]]}',
        "`inputs[0][1][2]` must be a number",
    )
    yield "twice", b'{"inputs": [], "inputs": []}', "has each name once, but got 'inputs' twice"
    yield "deep", b'{"inputs": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "JSON of few levels"
    yield "a list", json.dumps([GOOD]).encode(), '`body` must be an object with "inputs"'
    yield from _kinds_of_content(row)


def _kinds_of_content(row) -> Iterator[tuple[str, bytes, str]]:
    for kind, content, words in [
        ("no inputs", {}, "`inputs` must be a list of rows, at least one, but got 'nothing'"),
        ("no rows", {"inputs": []}, "`inputs` must be a list of rows, at least one, but got []"),
        (
            "unknown name",
            {**GOOD, "input": 1},
            "but got 'input'. Leave it out. Did you mean 'input",
        ),
        ("unknown model", {**GOOD, "model": "posteriro"}, "Did you mean 'posterior'?"),
        ("no model", {**GOOD, "model": ["posterior"]}, "`model` must be one of 'posterior'"),
        ("level", {**GOOD, "level": 1}, "`level` must be"),
        ("level in words", {**GOOD, "level": "0.9"}, "`level` must be"),
        (
            "particles",
            {**GOOD, "particles": "yes"},
            "`particles` must be true or false, but got 'y",
        ),
        ("one row", {"inputs": row}, "`inputs[0]` must be a list of 2 lists, but got a list of 3"),
        ("a number", {"inputs": [5]}, "`inputs[0]` must be a list of 2 lists, but got 5"),
        (
            "short",
            {"inputs": [row, [row[0], [1, 2]]]},
            "`inputs[1][1]` must be a list of 3 numbers",
        ),
        (
            "long",
            {"inputs": [[*row, row[0]]]},
            "but got a list of 3. Send rows in the shape [2, 3]",
        ),
        (
            "text",
            {"inputs": [[[1, 2, "3"], [0] * 3]]},
            "`inputs[0][0][2]` must be a number, but got",
        ),
        ("true", {"inputs": [[[1, 2, True], [0] * 3]]}, "must be a number, but got true"),
        ("null", {"inputs": [[[1, 2, None], [0] * 3]]}, "must be a number, but got null"),
        ("an object", {"inputs": [{"a": 1}]}, "`inputs[0]` must be a list of 2 lists"),
        (
            "lists for numbers",
            {"inputs": [[[[1], 2, 3], [0] * 3]]},
            "must be a number, but got [1]",
        ),
        ("half a character", {**GOOD, "model": "\ud800"}, "`model` must be one of"),
    ]:
        yield kind, json.dumps(content).encode(), words


def bodies(count: int, seed: int = 0) -> Iterator[bytes]:
    """So many wrong bodies: those of `kinds`, values in wrong places, and bytes that were hit."""
    rng = random.Random(seed)
    made = [body for _, body, _ in kinds()]
    good = json.dumps(GOOD).encode()
    for number in range(count):
        choice = number % 3
        if choice == 0:
            yield made[(number // 3) % len(made)]
        elif choice == 1:
            name = rng.choice(["inputs", "model", "level", "particles", "zzz"])
            wrong = [value for value in ODD if not _right(name, value)]
            yield json.dumps({**GOOD, name: rng.choice(wrong)}).encode()
        else:
            # A byte that no JSON has outside of texts, somewhere.
            place = rng.randrange(len(good))
            yield good[:place] + bytes([rng.choice([0, 7, 0xFF, 0xC0])]) + good[place + 1 :]


def _right(name: str, value: object) -> bool:
    return name == "particles" and isinstance(value, bool)


def is_in_words(answer: dict) -> bool:
    """Whether an answer is a refusal in full."""
    parts = answer["error"]
    full = all(isinstance(parts[each], str) for each in ("argument", "rule", "value", "remedy"))
    sentence = f"`{parts['argument']}` must be {parts['rule']}, but got {parts['value']}. "
    return full and answer["message"] == (sentence + parts["remedy"]).rstrip()
