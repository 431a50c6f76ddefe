"""Devices as data: peak rates by dtype, memory bandwidth and launch time, each with the data sheet it is taken from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rates:
    """What one class of operators (costs.classes) reaches in float32: operations a second, bytes a second, seconds to start."""

    peak: float
    bandwidth: float
    launch: float


@dataclass(frozen=True)
class Device:
    """What the roofline needs to know of a device.

    rates: of classes of operators, where they were fitted; `peak`, `bandwidth` and `launch` hold for the others
    peak: operations a second by dtype (dense, without sparsity)   bandwidth: bytes a second
    launch: seconds from one kernel to the next   memory: bytes on the device   source: where the figures come from
    """

    name: str
    peak: Mapping[str, float] = field(hash=False)
    bandwidth: float
    launch: float
    memory: float
    source: str
    rates: Mapping[str, Rates] = field(default_factory=dict, hash=False)

    def rate(self, dtype: str, of: str = "") -> float:
        """Operations a second in this dtype, by operators of a class; dtypes without a figure of their own run at the rate of float32."""
        rate = self.peak.get(dtype, self.peak["float32"])
        fitted = self.rates.get(of)
        return rate if fitted is None else rate / self.peak["float32"] * fitted.peak


class UnknownDeviceError(ValueError):
    """A device name without data; the message lists the names there are."""


LAUNCH = 4e-6
"""Seconds to launch one kernel from a stream, back to back, as measured on recent NVIDIA GPUs with PyTorch in eager mode."""

_TERA, _GIGA = 1e12, 1e9


def _gpu(name: str, half: float, single: float, double: float, byte: float, bandwidth: float, memory: float, source: str) -> Device:
    peak = {
        "bfloat16": half * _TERA,
        "float16": half * _TERA,
        "float32": single * _TERA,
        "float64": double * _TERA,
        "int8": byte * _TERA,
        "uint8": byte * _TERA,
    }
    return Device(name, peak, bandwidth * _TERA, LAUNCH, memory * _GIGA, source)


PROCESSOR = Device(
    "processor",
    {"float32": 100e9, "float64": 50e9, "bfloat16": 25e9, "float16": 25e9},
    20e9,
    3e-6,
    16e9,
    "estimate for two AVX-512 cores at 3 GHz with DDR4 and PyTorch's dispatch, alike for all operators",
)
"""A processor in general: what a search by measured kernels is led by at first."""

FITTED = (
    "fitted to the example models' kernels in PyTorch's eager mode on AMD EPYC, family 25 model 17 (benchmarks/results/calibration.md)"
)
CPU_RATES = {
    "attention": Rates(3.51e10, 4.95e9, 5.02e-5),
    "convolution": Rates(1.09e11, 2.22e10, 2.66e-4),
    "copy": Rates(1e9, 4.96e10, 2.36e-6),
    "depthwise convolution": Rates(2.05e10, 1.31e10, 2.36e-4),
    "grouped convolution": Rates(4e10, 1.31e10, 2.36e-4),
    "lookup": Rates(1e9, 1.13e11, 6.74e-6),
    "matrix product": Rates(6.26e10, 1.23e10, 6.87e-6),
    "normalisation": Rates(1e11, 3e10, 1.05e-5),
    "other": Rates(1e9, 3e9, 2.31e-6),
    "pointwise": Rates(7.85e9, 7.15e10, 1.25e-6),
    "pointwise convolution": Rates(5.81e10, 4.43e9, 4.92e-6),
    "pooling": Rates(1e11, 2e9, 5e-6),
    "reduction": Rates(5e9, 1e10, 5e-6),
    "transcendental": Rates(1.15e9, 2e10, 1.62e-6),
    "view": Rates(1e9, 3e9, 1.69e-6),
}
"""What classes of operators reach on that processor."""

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _gpu("h100", 989, 67, 34, 1979, 3.35, 80, "NVIDIA H100 Tensor Core GPU data sheet, SXM5 column, dense rates"),
        _gpu("h200", 989, 67, 34, 1979, 4.8, 141, "NVIDIA H200 Tensor Core GPU data sheet, SXM column, dense rates"),
        _gpu("a100", 312, 19.5, 9.7, 624, 2.039, 80, "NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM, dense, float32 without TF32"),
        _gpu("v100", 125, 15.7, 7.8, 62.8, 0.9, 32, "NVIDIA V100 Tensor Core GPU data sheet, SXM2 column"),
        _gpu("l4", 121, 30.3, 0.47, 242, 0.3, 24, "NVIDIA L4 Tensor Core GPU data sheet, dense rates"),
        _gpu("mi300x", 1307.4, 163.4, 81.7, 2614.9, 5.3, 192, "AMD Instinct MI300X data sheet, dense rates, vector float32 and float64"),
        Device("cpu", {"float32": 9e10, "float64": 4.5e10, "bfloat16": 9e10, "float16": 2.2e10}, 3e10, 2.2e-6, 16e9, FITTED, CPU_RATES),
    )
}
"""Every device by name."""


def device(name: str | Device) -> Device:
    """The device of this name.

    Raises: UnknownDeviceError naming the devices there are.
    """
    if isinstance(name, Device):
        return name
    if name not in DEVICES:
        raise UnknownDeviceError(f"device: must be one of {', '.join(DEVICES)}, got {name}")
    return DEVICES[name]
