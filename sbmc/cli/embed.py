"""`sbmc embed text | images`: raw data to embeddings, in an `.npz` file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sbmc.checks import BadInput, Phrase, require
from sbmc.cli.interruption import Interruption
from sbmc.cli.options import DebugOption, QuietOption, Text

if TYPE_CHECKING:
    from sbmc.embedding import Encoder, Source

embed_app = typer.Typer(help="Embed texts or pictures by a frozen network, for `sbmc head`.")

OutOption = Annotated[
    Path | None,
    typer.Option(help="The .npz file; SOURCE.npz if not given.", show_default=False),
]
BatchOption = Annotated[str, typer.Option(help="Items at a time.")]
DtypeOption = Annotated[
    str, typer.Option(help="Precision of the computation: float32, bfloat16 or float16.")
]
LimitOption = Annotated[
    Text, typer.Option(help="Embed so many at most: the first rows, or of each class in turn.")
]
DeviceOption = Annotated[str, typer.Option(help="Where to compute.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


@embed_app.callback(invoke_without_command=True)
def _embed(context: typer.Context) -> None:
    """Embed texts or pictures by a frozen network, for `sbmc head`."""
    rule = "text or images (see `sbmc embed --help`)"
    require(context.invoked_subcommand is not None, "command", rule, Phrase("nothing"))


@embed_app.command("text")
def text_command(
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder with a subfolder of .txt files for each class; or a file .jsonl, "
            ".jsonl.gz, .csv or .csv.gz."
        ),
    ],
    model: Annotated[
        str, typer.Option(help="Folder of a sentence-transformers model. Nothing is downloaded.")
    ],
    out: OutOption = None,
    text_column: Annotated[str, typer.Option(help="Of a file: where the text is.")] = "text",
    label_column: Annotated[str, typer.Option(help="Of a file: where the class is.")] = "label",
    max_tokens: Annotated[
        Text, typer.Option(help="Where texts are cut; the model's own limit if not given.")
    ] = None,
    batch_size: BatchOption = "32",
    dtype: DtypeOption = "float32",
    limit: LimitOption = None,
    device: DeviceOption = "cpu",
    force: ForceOption = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Embed texts. The same command goes on with a run that was stopped."""
    from sbmc.embedding import TextEncoder, read_texts

    tokens = None if max_tokens is None else _whole("max_tokens", max_tokens)
    most = None if limit is None else _whole("limit", limit)
    batch = _whole("batch_size", batch_size)
    found = read_texts(source, text_column=text_column, label_column=label_column, limit=most)
    encoder = TextEncoder(model, max_tokens=tokens, batch_size=batch, dtype=dtype, device=device)
    return run_embed(found, encoder, _target(source, out), force, quiet)


@embed_app.command("images")
def images_command(
    source: Annotated[
        Path, typer.Argument(help="A folder with a subfolder of pictures for each class.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="Name of one of torchvision's networks, whose last layer is left out; or a file "
            ".pt2 of torch.export.save that gives features."
        ),
    ],
    weights: Annotated[
        Path | None, typer.Option(help="File of the network's weights. Nothing is downloaded.")
    ] = None,
    out: OutOption = None,
    size: Annotated[str, typer.Option(help="Pixels of a side.")] = "224",
    batch_size: BatchOption = "32",
    dtype: DtypeOption = "float32",
    limit: LimitOption = None,
    device: DeviceOption = "cpu",
    force: ForceOption = False,
    debug: DebugOption = False,
    quiet: QuietOption = False,
) -> int:
    """Embed pictures. The same command goes on with a run that was stopped."""
    from sbmc.embedding import ImageEncoder, read_pictures

    most = None if limit is None else _whole("limit", limit)
    pixels, batch = _whole("size", size), _whole("batch_size", batch_size)
    found = read_pictures(source, limit=most)
    encoder = ImageEncoder(
        model, weights, size=pixels, batch_size=batch, dtype=dtype, device=device
    )
    return run_embed(found, encoder, _target(source, out), force, quiet)


def run_embed(source: Source, encoder: Encoder, out: Path, force: bool, quiet: bool) -> int:
    """Embed, and say what to run next.

    Args:
        source: the items.
        encoder: embeds them.
        out: the file to write.
        force: overwrite what is there.
        quiet: no progress.

    Returns:
        The exit code: 0.

    Raises:
        Interruption: after Ctrl-C, with words on how to go on.
    """
    from sbmc.embedding import embed

    try:
        embedded = embed(source, encoder, out, force=force, progress=not quiet)
    except KeyboardInterrupt as error:
        words = "interrupted; what is embedded is kept. The same command goes on."
        raise Interruption(words) from error
    count, width = embedded.inputs.shape
    classes = ", ".join(embedded.class_names[:10]) or "none"
    print(f"{out}: {count:,} items, {width} features, classes: {classes}")
    if embedded.labels is not None:
        print(f"Run next:\n  sbmc head {out}")
    return 0


def _target(source: Path, out: Path | None) -> Path:
    if out is not None:
        return out
    name = source.resolve().name if source.is_dir() else source.name.split(".")[0]
    return Path(f"{name}.npz")


def _whole(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise BadInput(f"`{name}` must be a positive whole number, but got {text!r}.")
    return int(text)
