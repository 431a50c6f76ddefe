"""ONNX Runtime as a runtime to measure in: fragments as models of few nodes, and whole models beside one another.

Every session has all of ONNX Runtime's own optimisations on, as its users have.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from costs.fragments import Fragment
from costs.kernels import POLICIES
from costs.runtimes import MeasuringError
from costs.timing import Call, Clock
from operators.foreign import UNTYPED

if TYPE_CHECKING:
    import onnx
    import torch

LARGEST_MESSAGE = 2_000_000_000
"""Bytes of a model that can be handed to a session in memory."""


class OnnxRuntime:
    """ONNX Runtime's CPU provider; a fragment is a model of its own.

    threads: within an operator; all cores, if left out
    """

    name = "onnxruntime"
    policy = POLICIES["none"]
    dispatches_views = True

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1

    def versions(self) -> Mapping[str, str]:
        import onnxruntime

        return {"onnxruntime": str(onnxruntime.__version__), "threads": str(self.threads)}

    def prepare(self, fragment: Fragment, seed: int = 0) -> Call:
        from graphs.onnx import OnnxError, to_model

        kinds = [operand.type for operand in fragment.operands] + [type for step in fragment.steps for type in step.types]
        if any(kind.dtype == UNTYPED for kind in kinds):
            raise MeasuringError(f"{fragment}: its types must be known")
        try:
            model = to_model(fragment.graph(seed), fold_sizes=True)
        except OnnxError as error:
            raise MeasuringError(f"{fragment}: ONNX cannot say it: {error}") from error
        return self.call(model, fragment.inputs(seed))

    def clock(self) -> Clock:
        return time.thread_time if self.threads == 1 else time.perf_counter

    def idle(self) -> Call:
        import onnx
        import torch
        from onnx import helper

        info = helper.make_tensor_value_info
        nodes = [helper.make_node("Identity", ["x"], ["y"])]
        graph = helper.make_graph(nodes, "nothing", [info("x", onnx.TensorProto.FLOAT, [1])], [info("y", onnx.TensorProto.FLOAT, [1])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return self.call(model, [torch.zeros(1)])

    def call(self, model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> Call:
        """A call that runs a whole model once on these inputs, in the order of the model's own.

        Raises: MeasuringError when ONNX Runtime does not take the model, or does not run it.
        """
        session = self.session(model)
        feeds = {info.name: array_of(tensor) for info, tensor in zip(session.get_inputs(), inputs, strict=True)}

        def call() -> object:
            return session.run(None, feeds)

        try:
            call()
        except Exception as error:  # ONNX Runtime's errors share no class but Exception, and all of them mean the same here.
            raise MeasuringError(f"onnxruntime: the model must run, got {first_line(error)}") from error
        return call

    def outputs(self, model: onnx.ModelProto, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """What the model computes.

        Raises: MeasuringError.
        """
        import torch

        found: Any = self.call(model, inputs)()
        for position, array in enumerate(found):
            if not hasattr(array, "dtype"):
                raise MeasuringError(f"onnxruntime: output {position} must be a tensor, got {type(array).__name__}")
        return [torch.from_numpy(array) for array in found]

    def session(self, model: onnx.ModelProto) -> Any:
        """A session of the model.

        Raises: MeasuringError.
        """
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # Threads that wait for work by spinning take the processors from whichever session is timed next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        if model.ByteSize() > LARGEST_MESSAGE:
            raise MeasuringError(f"onnxruntime: the model must be smaller than {LARGEST_MESSAGE:,} bytes, got {model.ByteSize():,}")
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # as above
            raise MeasuringError(f"onnxruntime: the model must load, got {first_line(error)}") from error


def array_of(tensor: torch.Tensor) -> Any:
    """The tensor as a numpy array.

    Raises: MeasuringError for a dtype that numpy does not have.
    """
    import torch

    if tensor.dtype == torch.bfloat16:
        raise MeasuringError("onnxruntime: inputs must have a dtype of numpy's, got bfloat16")
    return tensor.detach().contiguous().numpy()


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


__all__ = ["OnnxRuntime", "array_of", "first_line"]
