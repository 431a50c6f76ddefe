"""What one operator is: shape, dtype, meaning per element, cost, gradient, torch and ONNX names; importing declares all."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
