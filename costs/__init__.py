"""What a graph costs on a device: roofline and measured time, floating-point operations, bytes moved, kernels, peak memory."""

from costs.devices import DEVICES, Device, device
from costs.roofline import Cost, CostError, cost

__all__ = ["DEVICES", "Cost", "CostError", "Device", "cost", "device"]
