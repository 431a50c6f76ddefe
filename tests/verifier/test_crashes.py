"""Instances on which torch itself has crashed do not take the verifier down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """
import torch
import torch.nn.functional as F
from verifier.running import one_thread

x = torch.ones(8, 6, 3, 1, dtype=torch.bfloat16)
weight = torch.ones(500, dtype=torch.bfloat16).as_strided((12, 2, 5, 1), (10, 1, 2, 2))
with one_thread():
    for _ in range(50):
        F.conv2d(x, weight, None, (1, 5), (2, 4), (1, 4), 3)
print("alive")
"""


def test_a_bfloat16_convolution_by_a_weight_that_skips_elements() -> None:
    answer = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (answer.returncode, answer.stdout.strip()) == (0, "alive"), answer.stderr
