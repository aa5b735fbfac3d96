"""The code of a card that opens the folder; it runs as it stands."""

from __future__ import annotations

from typing import Any

from sbmc.report.pretrained.facts import CLASSES, FILES, LABELS, Facts

_SHOWN = {CLASSES: "probs", LABELS: "probs"}


def loading_code(class_name: str, facts: Facts) -> str:
    """Markdown with code that opens the folder, and asks for a prediction if inputs are known.

    Args:
        class_name: `"Posterior"` or `"Distilled"`.
        facts: what is known.

    Returns:
        A sentence and a block of Python; for data that commands read, a block for a shell too.
    """
    opened = f"sbmc.{class_name}.from_pretrained"
    needed = ["model"] if facts.needs_model else []
    needed += ["likelihood"] if facts.needs_likelihood else []
    where = (
        'In this folder; anywhere else `"."` is the path of the folder, or the id of its '
        "repository on the Hub. Nothing in it is run as code."
    )
    if needed:
        named = facts.network.get("reference") or facts.network.get("class") or "the network"
        arguments = ", ".join(f"{each}={each}" for each in needed)
        sentence = (
            f"{where} What is not stored is code of its author: give `{'` and `'.join(needed)}` "
            "that it was made with."
        )
        lines = [
            "import sbmc",
            "",
            "",
            f"def load({', '.join(needed)}):",
            *([f"    # The network was: {_comment(named)}"] if "model" in needed else []),
            f'    return {opened}(".", {arguments})',
        ]
        return f"{sentence}\n\n{_block(lines)}"
    lines = ["import sbmc", "", f'model = {opened}(".")']
    rows = _made_up_rows(facts.inputs)
    if rows is not None:
        lines = ["import torch", "", *lines, "", f"inputs = {rows}"]
        lines += ["prediction = model.predict(inputs)"]
        lines += [f"print(prediction.{_SHOWN.get(facts.kind, 'mean')}, prediction.epistemic)"]
    kind = facts.recipe.get("kind")
    shell = ""
    if kind in ("table", "pictures"):
        data = "new.csv" if kind == "table" else "pictures"
        command = f"sbmc predict {FILES[class_name]} --data {data}"
        shell = f"\n\nFrom a shell:\n\n```bash\n{command}\n```"
    return f"{where}\n\n{_block(lines)}{shell}"


def _block(lines: list[str]) -> str:
    return "\n".join(["```python", *lines, "```"])


def _comment(text: Any) -> str:
    """Text for a line of code: it ends neither the line nor the block."""
    return "".join(letter for letter in str(text)[:200] if letter.isprintable() and letter != "`")


def _made_up_rows(inputs: dict[str, Any] | None) -> str | None:
    if inputs is None:
        return None
    rows = [
        f"torch.zeros({', '.join(map(str, (1, *leaf['shape'])))}, dtype={leaf['dtype']})"
        for leaf in inputs["leaves"]
    ]
    if inputs["names"]:
        pairs = zip(inputs["names"], rows, strict=True)
        return "{" + ", ".join(f"{_literal(name)}: {row}" for name, row in pairs) + "}"
    return rows[0] if inputs["form"] == "tensor" else f"({', '.join(rows)},)"


def _literal(name: str) -> str:
    # A backtick could end the block.
    return ascii(str(name)).replace("`", "\\x60")
