"""What one operator is: shape, dtype, meaning per element, cost, gradient, torch and ONNX names; importing declares all."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    if _module.name != "document":  # a program: runpy warns when it is imported already
        importlib.import_module(f"{__name__}.{_module.name}")
