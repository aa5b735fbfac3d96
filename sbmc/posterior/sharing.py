"""How a posterior or a distilled network is shared: a folder with a card, as the Hub takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from torch import nn

if TYPE_CHECKING:
    from typing import Self


class Shareable:
    """The methods that write a folder for the Hugging Face Hub, and read one."""

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        evaluate: Any = None,
        evaluated_on: str = "data of the author's choice",
        level: float = 0.9,
        name: str | None = None,
        description: str = "",
        license: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write a folder with the weights (safetensors), `config.json` and a model card.

        The card, `README.md`, says what it is, what the data were like (none of them is in it),
        what it cost, its health with reasons and remedies, metrics, limits, and how to load it.
        Uploading is huggingface_hub's: `HfApi().upload_folder(...)`.

        Args:
            folder: made if it is missing. Files in it that have other names are left alone.
            evaluate: `(inputs, targets)` to measure it on; None for a card without metrics.
            evaluated_on: what these data are called in the card.
            level: of the intervals of numbers, for metrics.
            name: title of the card; the folder's name if None.
            description: a few sentences of your own.
            license: as the Hub spells it, such as `"mit"`; None for none.
            metadata: further entries for the head of the card, such as `datasets` or `language`.
            overwrite: whether files that this method did not write, or a card that was edited
                since, may be replaced.

        Returns:
            The folder.

        Raises:
            BadInput: an argument breaks its rule, the data do not fit, or files would be lost.

        Examples:
            >>> import sbmc, tempfile, torch
            >>> x = torch.randn(40, 2)
            >>> posterior = sbmc.fit(nn.Linear(2, 2), (x, (x[:, 0] > 0).long()), s=0.1)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     saved = posterior.save_pretrained(f"{folder}/signs", license="mit")
            ...     sorted(path.name for path in saved.iterdir())
            ['README.md', 'config.json', 'posterior.safetensors']
        """
        return _folders().write_folder(
            self,
            folder,
            evaluate=evaluate,
            evaluated_on=evaluated_on,
            level=level,
            name=name,
            description=description,
            license=license,
            metadata=metadata,
            overwrite=overwrite,
        )

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        model: nn.Module | None = None,
        likelihood: Callable[..., Any] | Any = None,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> Self:
        """Read a folder of `save_pretrained`, or fetch it from the Hugging Face Hub.

        Only `config.json` and the file of weights are fetched, and no code is run: a network that
        is code has to be given, and so has one that is a graph of torch.export, which torch reads
        by pickle, unless the folder is a local one.

        Args:
            source: a folder; or the id of a repository of the Hub, which huggingface_hub fetches
                (`pip install 'sbmc[hub]'`).
            model: the network, if the folder does not have it, as for `sbmc.load`. Never changed.
            likelihood: the callable, if the posterior was made with one.
            revision: of a repository: a branch, a tag or a commit.
            local_files_only: whether to look only at folders and at the Hub's local cache.

        Returns:
            What was saved; it predicts the same.

        Raises:
            BadInput: there is no such folder or repository, it has something else or is damaged,
                or a network is needed.
            ImportError: huggingface_hub is needed and not installed.
        """
        folders = _folders()
        found = folders.read_folder(
            folders.class_of(cls),
            source,
            model=model,
            likelihood=likelihood,
            revision=revision,
            local_files_only=local_files_only,
        )
        return cast("Self", found)


def _folders() -> Any:
    from sbmc.report.pretrained import folder

    return folder
