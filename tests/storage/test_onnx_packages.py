"""Without the packages for ONNX, the error names the extra."""

import sys

import pytest

from sbmc.storage.optional import load_onnx


@pytest.mark.parametrize("name", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_package_names_the_extra(name, monkeypatch):
    for other in ("onnx", "onnxruntime", "onnxscript"):
        monkeypatch.setitem(sys.modules, other, None if other == name else sys)
    with pytest.raises(ImportError, match=rf"{name} is not installed: pip install 'sbmc\[onnx\]'"):
        load_onnx()
