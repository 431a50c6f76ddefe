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

FITTED = "fitted to the example models' kernels in PyTorch's eager mode on AMD EPYC, family 25 model 17 (benchmarks/results/calibration.md)"
CPU_RATES = {
    "attention": Rates(2.92e10, 5.87e09, 1e-07),
    "convolution": Rates(1.03e11, 1.34e10, 0.000222),
    "copy": Rates(1e09, 4.37e10, 2.6e-06),
    "depthwise convolution": Rates(3.18e10, 6.29e09, 3.27e-05),
    "grouped convolution": Rates(5.89e10, 2e10, 0.000113),
    "lookup": Rates(1e09, 1.77e11, 5.1e-06),
    "matrix product": Rates(8.04e10, 4.65e09, 6.03e-07),
    "normalisation": Rates(1.83e10, 3.2e10, 7.93e-06),
    "other": Rates(8.6e07, 2.86e10, 2.28e-06),
    "pointwise": Rates(8.96e09, 8.37e10, 1.64e-06),
    "pointwise convolution": Rates(6.9e10, 6.4e09, 7.17e-06),
    "pooling": Rates(2.2e13, 9.66e08, 1e-07),
    "reduction": Rates(5.62e09, 2.29e10, 2.35e-06),
    "transcendental": Rates(1e10, 1.71e10, 1.65e-06),
    "view": Rates(1e09, 3e09, 1.6e-06),
}
"""What classes of operators reach on that processor in float32; other dtypes are in the proportions of an estimate."""

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _gpu("h100", 989, 67, 34, 1979, 3.35, 80, "NVIDIA H100 Tensor Core GPU data sheet, SXM5 column, dense rates"),
        _gpu("h200", 989, 67, 34, 1979, 4.8, 141, "NVIDIA H200 Tensor Core GPU data sheet, SXM column, dense rates"),
        _gpu("a100", 312, 19.5, 9.7, 624, 2.039, 80, "NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM, dense, float32 without TF32"),
        _gpu("v100", 125, 15.7, 7.8, 62.8, 0.9, 32, "NVIDIA V100 Tensor Core GPU data sheet, SXM2 column"),
        _gpu("l4", 121, 30.3, 0.47, 242, 0.3, 24, "NVIDIA L4 Tensor Core GPU data sheet, dense rates"),
        _gpu("mi300x", 1307.4, 163.4, 81.7, 2614.9, 5.3, 192, "AMD Instinct MI300X data sheet, dense rates, vector float32 and float64"),
        Device(
            "cpu",
            {"float32": 6.85e10, "float64": 3.4e10, "bfloat16": 6.85e10, "float16": 1.7e10},
            6.88e10,
            2.03e-6,
            16e9,
            FITTED,
            CPU_RATES,
        ),
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
