"""From folders of reviews or pictures to embeddings, and to a posterior over the head."""

from sbmc.embedding.embedded import Embedded, load_embedded
from sbmc.embedding.heads import POSTERIOR, HeadRun, run_head
from sbmc.embedding.image_encoder import ImageEncoder
from sbmc.embedding.shards import Encoder, embed
from sbmc.embedding.sources import Source, read_pictures, read_texts
from sbmc.embedding.text_encoder import TextEncoder

__all__ = [
    "POSTERIOR",
    "Embedded",
    "Encoder",
    "HeadRun",
    "ImageEncoder",
    "Source",
    "TextEncoder",
    "embed",
    "load_embedded",
    "read_pictures",
    "read_texts",
    "run_head",
]
