"""The gallery: run the examples as notebooks, and write the pages that show them.

    python docs/render_gallery.py [NAME ...]          run in full; write docs/gallery
    python docs/render_gallery.py --quick [NAME ...]  run in a few seconds each; write nothing

`make gallery` and `make test-gallery` call it in an environment that has all that examples need.

An example is a Python file in jupytext's percent format. Its first cell has the title and, in the
paragraph below, the sentence of its card. Two options of a cell are ours:

    # %% alt="What the picture shows, for those who cannot see it."
    # %% quick="epochs = 20"      runs after the cell in the quick form, to make it short

The quick form is the same code with smaller numbers, and warnings are errors in it.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jupytext
import nbclient
import nbformat
from PIL import Image
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs" / "gallery"
SOURCE = "https://github.com/sbmc-project/sbmc/blob/main/examples"

SECTIONS = {
    "Bring your own problem": ("table_with_pandas", "regression_intervals", "own_cnn"),
    "With the libraries that you train with": (
        "bert_last_layer",
        "lora",
        "lightning_and_trainer",
        "ray_cluster",
    ),
    "Act on it": (
        "abstain_with_guarantee",
        "conformal_sets",
        "conformal_own_network",
        "bayesian_optimisation",
        "active_learning",
    ),
    "Look inside": ("s_from_0_to_1", "arviz_diagnostics", "own_sampler"),
}
NAMES = tuple(name for names in SECTIONS.values() for name in names)

# What other packages warn of by themselves, and no user of the example could avoid.
FOREIGN_WARNINGS = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ImportWarning")
NO_WIDGETS = "ignore:IProgress not found"  # of tqdm, in a kernel without widgets
# Chains of a few steps are rightly said to be too short.
SHORT_RUNS = "ignore:The posterior is not ok"
# What Ray says of a worker that died, with its numbers, and of a kernel without widgets.
CHATTER = r"\(raylet\)|ipywidgets"
ENVIRONMENT = {
    "MATPLOTLIBRC": str(ROOT / "docs" / "gallery.mplstyle"),
    "OMP_WAIT_POLICY": "PASSIVE",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
}
LARGEST_PICTURE, LARGEST_ANIMATION = 120_000, 500_000
THUMBNAIL_WIDTH = 360


def read_example(name: str, *, quick: bool = False) -> nbformat.NotebookNode:
    """An example as a notebook without outputs; in the quick form if asked for."""
    notebook = jupytext.read(EXAMPLES / f"{name}.py")
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"  # not a random one, so that files only change with examples
        if quick and "quick" in cell.metadata:
            cell.source += f"\n{cell.metadata['quick']}"
    return notebook


def run_quickly(name: str) -> tuple[str, float, subprocess.CompletedProcess]:
    """Run the quick form of an example as a script, with warnings as errors."""
    cells = read_example(name, quick=True).cells
    code = "\n\n".join(cell.source for cell in cells if cell.cell_type == "code")
    filters = [word for each in ("error", *FOREIGN_WARNINGS, SHORT_RUNS) for word in ("-W", each)]
    environment = {**os.environ, **ENVIRONMENT, "MPLBACKEND": "agg"}
    environment.pop("DISPLAY", None)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="gallery") as folder:
        script = Path(folder) / f"{name}.py"
        script.write_text(code, "utf-8")
        done = subprocess.run(
            [sys.executable, *filters, script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    return name, time.perf_counter() - began, done


def run_in_full(notebook: nbformat.NotebookNode) -> float:
    """Run a notebook in place; the seconds of processor time that it took, here as elsewhere."""
    os.environ.update(ENVIRONMENT, PYTHONWARNINGS=",".join((*FOREIGN_WARNINGS, NO_WIDGETS)))
    with tempfile.TemporaryDirectory(prefix="gallery") as folder:
        # Sockets in a folder of this user; others on the machine could connect to ports.
        config = Config(KernelManager={"transport": "ipc", "ip": f"{folder}/kernel"})
        place = {"metadata": {"path": folder}}
        client = nbclient.NotebookClient(notebook, config=config, timeout=1200, resources=place)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        client.execute()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_page(name: str) -> None:
    """Run an example in full and write its page, its pictures and its notebook."""
    notebook = read_example(name)
    bare = nbformat.writes(notebook)
    seconds = run_in_full(notebook)
    for old in (PAGES / "images").glob(f"{name}-*"):
        old.unlink()
    title, *rest = notebook.cells
    heading, _, opening = title.source.partition("\n")
    parts = [heading, opening.strip(), _about(name, seconds)]
    pictures = 0
    for cell in rest:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in _joined(cell.outputs):
            text, count = _output(name, output, cell.metadata.get("alt"), pictures)
            parts.append(text)
            pictures += count
    (PAGES / f"{name}.md").write_text("\n\n".join(parts) + "\n", "utf-8")
    (PAGES / f"{name}.ipynb").write_text(bare + "\n", "utf-8")
    print(f"{name}: {seconds:.0f} s, {pictures} pictures", flush=True)


def _about(name: str, seconds: float) -> str:
    return (
        f"*It takes {in_words(seconds)} of one core's time. Get it as "
        f"[a Python file]({SOURCE}/{name}.py) or [a notebook]({name}.ipynb); "
        f"`make gallery NAMES={name}` made this page.*"
    )


def in_words(seconds: float) -> str:
    """A duration as one says it, since the next machine has another.

    Example:
        >>> in_words(50)
        'about a minute'
    """
    for limit, words in ((15, "some ten seconds"), (40, "about half a minute")):
        if seconds < limit:
            return words
    minutes = round(seconds / 60)
    numbers = ("", "a minute", "two minutes", "three minutes", "four minutes", "five minutes")
    return f"about {numbers[max(minutes, 1)]}" if minutes < len(numbers) else f"{minutes} minutes"


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with neighbouring pieces of standard output as one."""
    joined: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            lines = output.text.splitlines(keepends=True)
            output.text = "".join(line for line in lines if not re.search(CHATTER, line))
            if not output.text.strip():
                continue
            if output.name == "stderr":
                raise SystemExit(f"an example wrote to standard error:\n{output.text}")
            if joined and joined[-1].output_type == "stream":
                joined[-1].text += output.text
                continue
        joined.append(output)
    return joined


def _output(name: str, output: Any, alt: str | None, before: int) -> tuple[str, int]:
    """An output in Markdown, and how many pictures it has."""
    if output.output_type == "stream":
        lines = (line.rstrip() for line in output.text.rstrip().splitlines())
        return "```text\n" + "\n".join(lines) + "\n```", 0
    data = output.data
    for kind in ("image/png", "image/webp"):
        if kind in data:
            if not alt:
                raise SystemExit(f"{name}: a picture needs a text: # %% alt=...")
            return _picture(f"{name}-{before + 1}", base64.b64decode(data[kind]), alt), 1
    raise SystemExit(f"{name}: print it, since a script would not show it:\n{data['text/plain']}")


def _picture(stem: str, content: bytes, alt: str) -> str:
    """Write a picture as a small file; the Markdown that shows it."""
    picture = Image.open(io.BytesIO(content))
    if getattr(picture, "n_frames", 1) > 1:
        return _animation(stem, content, alt)
    file = PAGES / "images" / f"{stem}.png"
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    if file.stat().st_size > LARGEST_PICTURE:
        raise SystemExit(f"{file.name} has {file.stat().st_size} bytes: draw less, or smaller")
    return f"![{alt}](images/{file.name})"


def _animation(stem: str, content: bytes, alt: str) -> str:
    """An animation that plays when it is asked for, and stops when it is closed again."""
    if len(content) > LARGEST_ANIMATION:
        raise SystemExit(f"{stem}.webp has {len(content)} bytes: fewer frames, or smaller ones")
    (PAGES / "images" / f"{stem}.webp").write_bytes(content)
    return (
        '<details markdown="1">\n<summary>Play the animation (close it to stop it)</summary>\n\n'
        f"![{alt}](images/{stem}.webp)\n\n</details>"
    )


def write_index() -> None:
    """The page with a card for every example that has been rendered."""
    parts = [
        "# Gallery",
        "Fifteen problems from beginning to end. Each is one file that runs as it is, with data "
        "that it makes itself or that come with scikit-learn. `make gallery` runs them and writes "
        "these pages; all of them are tested in a short form (`make test-gallery`).",
    ]
    for section, names in SECTIONS.items():
        cards = [_card(name) for name in names if (PAGES / f"{name}.md").exists()]
        if cards:
            grid = '<div class="grid cards" markdown>\n\n' + "\n\n".join(cards) + "\n\n</div>"
            parts += [f"## {section}", grid]
    (PAGES / "index.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def _card(name: str) -> str:
    page = (PAGES / f"{name}.md").read_text("utf-8")
    title, sentence = page.split("\n\n")[:2]
    largest = max(
        (Image.open(PAGES / "images" / file) for file in re.findall(r"images/([\w-]+\.png)", page)),
        key=lambda picture: picture.width * picture.height,
    )
    size = THUMBNAIL_WIDTH, round(largest.height * THUMBNAIL_WIDTH / largest.width)
    small = largest.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.save(PAGES / "images" / f"{name}-card.webp", quality=80)
    sentence = " ".join(sentence.split())
    link = f"**[{title.removeprefix('# ')}]({name}.md)**"
    return f"-   ![](images/{name}-card.webp)\n\n    {link}\n\n    {sentence}"


def main() -> int:
    """Run the examples that the command line names, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="run in a short form, write nothing")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no such example: {', '.join(unknown)}")
    names = options.names or NAMES
    if not options.quick:
        (PAGES / "images").mkdir(parents=True, exist_ok=True)
        for name in names:
            write_page(name)
        write_index()
        return 0
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for name, seconds, done in pool.map(run_quickly, names):
            print(
                f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}, {seconds:.0f} s", flush=True
            )
            if done.returncode:
                print(done.stdout, done.stderr, sep="\n")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
