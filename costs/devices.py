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
            {"float32": 100e9, "float64": 50e9, "bfloat16": 25e9, "float16": 25e9},
            20e9,
            3e-6,
            16e9,
            "estimate for two AVX-512 cores at 3 GHz with DDR4 and PyTorch's dispatch; calibrate for a real machine",
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
