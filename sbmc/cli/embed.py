"""`sbmc embed text | images`: raw data to embeddings, in an `.npz` file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sbmc.checks import Phrase, require
from sbmc.cli.completion import DTYPES, offer
from sbmc.cli.help import add_command
from sbmc.cli.interruption import explain_interruption
from sbmc.cli.options import DebugOption, QuietOption, Text, read_count, with_option_groups

embed_app = typer.Typer(help="Embed texts or pictures by a frozen network, for `sbmc head`.")


@dataclass(frozen=True)
class EmbedOptions:
    """Options that texts and images have in common."""

    out: Annotated[
        Path | None,
        typer.Option(help="The .npz file; SOURCE.npz if not given.", show_default=False),
    ] = None
    batch_size: Annotated[str, typer.Option(metavar="INTEGER", help="Items at a time.")] = "32"
    dtype: Annotated[
        str,
        typer.Option(
            help="Precision of the computation: float32, bfloat16 or float16.",
            autocompletion=offer(DTYPES),
        ),
    ] = "float32"
    limit: Annotated[
        Text,
        typer.Option(
            metavar="INTEGER",
            help="Embed so many at most: the first rows, or of each class in turn.",
        ),
    ] = None
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu"
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False
    debug: DebugOption = False
    quiet: QuietOption = False

    def read_limit(self) -> int | None:
        """How many items to embed at most, if there is a limit."""
        return None if self.limit is None else read_count("limit", self.limit)

    def for_encoder(self) -> dict[str, Any]:
        """Arguments that all encoders take."""
        size = read_count("batch_size", self.batch_size)
        return {"batch_size": size, "dtype": self.dtype, "device": self.device}


@embed_app.callback(invoke_without_command=True)
def _embed(context: typer.Context) -> None:
    """Embed texts or pictures by a frozen network, for `sbmc head`."""
    rule = "text or images (see `sbmc embed --help`)"
    require(context.invoked_subcommand is not None, "command", rule, Phrase("nothing"))


@with_option_groups
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
    *,
    text_column: Annotated[str, typer.Option(help="Of a file: where the text is.")] = "text",
    label_column: Annotated[str, typer.Option(help="Of a file: where the class is.")] = "label",
    max_tokens: Annotated[
        Text,
        typer.Option(
            metavar="INTEGER", help="Where texts are cut; the model's limit if not given."
        ),
    ] = None,
    options: EmbedOptions,
) -> int:
    """Embed texts. The same command continues one that was stopped."""
    columns = {"text_column": text_column, "label_column": label_column}
    tokens = None if max_tokens is None else read_count("max_tokens", max_tokens)
    return run_embed("text", source, columns, {"model": model, "max_tokens": tokens}, options)


@with_option_groups
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
    *,
    weights: Annotated[
        Path | None, typer.Option(help="File of the network's weights. Nothing is downloaded.")
    ] = None,
    size: Annotated[str, typer.Option(metavar="INTEGER", help="Pixels of a side.")] = "224",
    options: EmbedOptions,
) -> int:
    """Embed pictures. The same command continues one that was stopped."""
    network = {"model": model, "weights": weights, "size": read_count("size", size)}
    return run_embed("images", source, {}, network, options)


add_command(
    embed_app,
    "text",
    text_command,
    examples=[
        "sbmc embed text reviews --model models/all-mpnet-base-v2",
        "sbmc embed text reviews.csv --label-column stars --model models/minilm",
    ],
    panel=None,
)
add_command(
    embed_app,
    "images",
    images_command,
    examples=["sbmc embed images photos --model resnet18 --weights resnet18.pth"],
    panel=None,
)


def run_embed(
    kind: str,
    source: Path,
    reading: Mapping[str, Any],
    network: Mapping[str, Any],
    options: EmbedOptions,
) -> int:
    """Embed, and print the command to run next.

    Args:
        kind: `"text"` or `"images"`.
        source: folder or file of the items.
        reading: arguments of the function that reads the items.
        network: arguments of the encoder.
        options: that both kinds have.

    Returns:
        The exit code: 0.

    Raises:
        Interruption: after Ctrl-C; the message says how to continue.
    """
    from sbmc import embedding

    by_kind: dict[str, tuple[Any, Any]] = {
        "text": (embedding.read_texts, embedding.TextEncoder),
        "images": (embedding.read_pictures, embedding.ImageEncoder),
    }
    read, encoder = by_kind[kind]
    limit, settings = options.read_limit(), options.for_encoder()
    items = read(source, limit=limit, **reading)
    out = _target(source, options.out)
    with explain_interruption("what is embedded is saved. The same command continues."):
        embedded = embedding.embed(
            items,
            encoder(**network, **settings),
            out,
            force=options.force,
            progress=not options.quiet,
        )
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
