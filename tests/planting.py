"""Bugs planted in C code: a copy of a kernel's files with one thing wrong, compiled and used."""

from __future__ import annotations

from contextlib import contextmanager

from sbmc.model.kernels.native import build


@contextmanager
def planted(monkeypatch, folder, module, right, wrong):
    """Have `module` use its source, or a header, with `wrong` in place of `right`.

    Args:
        monkeypatch: of the test.
        folder: for the copies, and for what is compiled from them.
        module: of `sbmc.model.kernels.native`, with a `SOURCE` and a cached `_load`.
        right: what stands exactly once in the source and the headers that it includes.
        wrong: what stands there in the block.
    """
    texts = {f.name: f.read_text("utf-8") for f in [module.SOURCE, *build.SOURCES.glob("*.h")]}
    included = [module.SOURCE.name]
    for name in included:
        included += [h for h in texts if f'#include "{h}"' in texts[name] and h not in included]
    assert sum(texts[name].count(right) for name in included) == 1, right
    for name in included:
        (folder / name).write_text(texts[name].replace(right, wrong), "utf-8")
    with monkeypatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        patch.setattr(module, "SOURCE", folder / module.SOURCE.name)
        # A wrong result is wrong however it is compiled, and this is compiled sooner.
        patch.setattr(build, "FLAGS", ("-O1", *build.FLAGS[1:]))
        module._load.cache_clear()
        try:
            module._load()  # what does not compile is no bug that could be found out
            yield
        finally:
            module._load.cache_clear()
