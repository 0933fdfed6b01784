"""A CUDA device where there is none: its tensors' values lie in the host's memory, its work waits as on a stream.

Within `simulated()` a tensor on "cuda" is an `OnDevice`. What is asked of it is queued, and runs when the host waits:
for an event, up to that event; else for all of it. Until then every result is poison (not a number, an absurd id), so
that whoever reads too early, or overwrites what a copy is still to read, computes something else. As on a device,
tensors of host and device do not mix, and a copy is only asynchronous from or to pinned memory. Graphs are captured
and replayed over the same addresses; a replay poisons what other graphs of its memory pool have left.

What it cannot show: speed, several streams at once (all work is one queue), and what a kernel computes differently.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import structgen

CUDA = torch.device("cuda", 0)
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "is_nonzero", "equal"}
"""Operations for which a host waits for a device: their results' shapes or values are needed at once."""

INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_"}
WHOLE = {"scaled_dot_product_attention"}
"""Operations that run as they are: what they are made of depends on the device."""

OURS_AND_THEIRS = tuple(str(Path(package.__file__).parent) for package in (structgen, transformers))
"""Where a wait can come from: the code of these two."""

POISON = {torch.bool: False, torch.uint8: 0xA5}


class HiddenWait(AssertionError):
    """The host waits for the device where it must not."""


class OnDevice(Tensor):
    """A tensor on the simulated device; `held` are its values, once they are computed."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> OnDevice:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device=CUDA, **layout)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} outside of `simulated()`")

    def __getitem__(self, index: Any) -> Tensor:
        """torch's own would ask for a driver."""
        view, tensors = _selected(self, index)
        return torch.ops.aten.index.Tensor(view, tensors) if tensors else view

    def __setitem__(self, index: Any, value: Any) -> None:
        view, tensors = _selected(self, index)
        if not isinstance(value, Tensor):
            assert not tensors, "a number for picked places would be copied to the device"
            view.fill_(value)
        elif tensors:
            torch.ops.aten.index_put_(view, tensors, value)
        else:
            view.copy_(value)

    def __invert__(self) -> Tensor:
        return self.bitwise_not()

    def contiguous(self, **_: Any) -> Tensor:
        return self if self.is_contiguous() else self.clone(memory_format=torch.contiguous_format)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> Tensor:
        return torch.ops.aten.copy_.default(self, source, non_blocking)

    def record_stream(self, stream: Any) -> None:
        assert isinstance(stream, Stream)

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({tuple(self.shape)}, {self.dtype})"


def _selected(tensor: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """The view that numbers and slices of an index select, and the tensors by which the rest is picked."""
    each = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [i for i in each if not isinstance(i, Tensor)]:
        at = next(n for n, i in enumerate(each) if i is Ellipsis)
        used = sum(i is not None for i in each) - 1
        each[at : at + 1] = [slice(None)] * (tensor.dim() - used)
    tensors: list[Tensor | None] = []
    for i in each:
        at = len(tensors)
        if isinstance(i, (Tensor, list)):
            tensors.append(torch.tensor(i, device=CUDA) if isinstance(i, list) else i)
        elif i is None:
            tensor = tensor.unsqueeze(at)
            tensors.append(None)
        elif isinstance(i, slice):
            start, stop, step = i.indices(tensor.shape[at])
            tensor = torch.ops.aten.slice.Tensor(tensor, at, start, max(start, stop), step)
            tensors.append(None)
        else:
            tensor = tensor.select(at, int(i))
    return tensor, tensors if any(i is not None for i in tensors) else []


class Graph:
    """What `torch.cuda.CUDAGraph` is."""

    def __init__(self) -> None:
        self.work: list[Callable[[], Any]] = []
        self.made: list[Tensor] = []
        self._pool: list[Graph] = []

    def pool(self) -> list[Graph]:
        return self._pool

    def replay(self) -> None:
        device = SimulatedDevice.current
        assert device.capturing is None
        device.replays += 1
        for other in self._pool:
            device.queue += [lambda made=made: _poison(made) for made in other.made if other is not self]
        device.queue += self.work


class Event:
    """What `torch.cuda.Event` is."""

    def __init__(self) -> None:
        self.behind: Callable[[], Any] | None = None

    def record(self, stream: Any = None) -> None:
        self.behind = lambda: None
        SimulatedDevice.current.queue.append(self.behind)

    def synchronize(self) -> None:
        device = SimulatedDevice.current
        assert self.behind is not None
        device.events += 1
        device.run(self.behind)


class Stream:
    """What `torch.cuda.Stream` is; all of them are one queue."""

    def __init__(self, device: torch.device | None = None) -> None:
        assert device in (None, CUDA)

    def wait_stream(self, stream: Any) -> None:
        assert isinstance(stream, Stream)


class SimulatedDevice(TorchDispatchMode):
    """The device's queue, and what the host has done with it.

    Attributes:
        queue: work that was not done yet.
        events: how often the host has waited for an event.
        waits: where it has waited for all of the work, "file:function", each time.
        forbids: raise `HiddenWait` instead.
        captures, replays: of graphs.
        capturing: the graph that is captured.
        is_lost: it waited meanwhile, and cannot be ended.
        stream: of the host's thread.
    """

    current: SimulatedDevice

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[Callable[[], Any]] = []
        self.events = self.captures = self.replays = 0
        self.waits: list[str] = []
        self.forbids = self.is_lost = False
        self.capturing: Graph | None = None
        self.stream = Stream()
        self._pinned: dict[int, Tensor] = {}

    def run(self, behind: Callable[[], Any] | None = None) -> None:
        """Does the work of the queue, up to an event."""
        if behind is not None and all(behind is not each for each in self.queue):
            return
        while self.queue:
            done = self.queue.pop(0)
            done()
            if done is behind:
                return

    def wait(self, why: str) -> None:
        """The host waits for all that was asked for."""
        frames = [f for f in traceback.extract_stack() if f.filename.startswith(OURS_AND_THEIRS)]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "a test"
        if self.capturing is not None:
            self.is_lost = True
            raise RuntimeError(f"operation not permitted when stream is capturing: {why} at {place}")
        if self.forbids:
            raise HiddenWait(f"{why} at {place}, line {frames[-1].lineno if frames else '?'}")
        self.waits.append(place)
        self.run()

    def to_device(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module with its parameters and buffers there."""
        with torch.inference_mode():  # a view of them is not to be followed
            for part in module.modules():
                for kept in (part._parameters, part._buffers):
                    kept |= {name: OnDevice(t.data) for name, t in kept.items() if t is not None}
        return module

    @contextmanager
    def capture(self, graph: Graph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"):
        """What `torch.cuda.graph` is. Like that, it does not leave its stream where a capture fails, and ends with an
        error that only says that there was one."""
        assert isinstance(stream, Stream), "warm-up and capture share a stream, so that its workspaces are there"
        assert capture_error_mode == "thread_local", "other threads may go on"
        self.run()
        graph._pool = [] if pool is None else pool
        graph._pool.append(graph)
        before, self.stream = self.stream, stream
        self.captures, self.capturing = self.captures + 1, graph
        try:
            yield
        finally:
            self.capturing = None
            if self.is_lost:
                self.is_lost = False
                raise RuntimeError("CUDA error: operation failed due to a previous error during capture")
        self.stream = before

    def set_stream(self, stream: Stream) -> None:
        """What `torch.cuda.set_stream` is."""
        self.stream = stream

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = function._schema.name.partition("::")[2]
        if name not in WHOLE and _is_composite(function):
            with self:
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if name in ("is_pinned", "_pin_memory") or kwargs.pop("pin_memory", False):
            return self._in_pinned_memory(name, function, args, kwargs)
        tensors = _tensors((args, kwargs))
        goes_there = "device" in kwargs and kwargs["device"] is not None and torch.device(kwargs["device"]) == CUDA
        goes_there = goes_there or kwargs.get("device") == torch.device("cuda")
        if not goes_there and not any(isinstance(t, OnDevice) for t in tensors):
            return function(*args, **kwargs)
        if name in ("_to_copy", "copy_"):
            return self._copy(name, function, args, kwargs)
        return self._computed(name, function, args, kwargs)

    def _in_pinned_memory(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        if name == "is_pinned":
            return self._is_pinned(args[0])
        assert self.capturing is None, "pinned memory must not be asked for while a graph is captured"
        made = args[0].clone() if name == "_pin_memory" else function(*args, **kwargs)
        if name != "_pin_memory":
            _poison(made)
        self._pinned[made.untyped_storage().data_ptr()] = made
        return made

    def _is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage().data_ptr() in self._pinned

    def _copy(self, name: str, function: Any, args: Any, kwargs: Any) -> Tensor:
        """A copy between host and device, or on the device."""
        target, source = (args[0], args[1]) if name == "copy_" else (None, args[0])
        non_blocking = kwargs.get("non_blocking", args[2] if name == "copy_" and len(args) > 2 else False)
        device = kwargs.get("device") or (source.device if target is None else target.device)
        host = [t for t in (source, target) if t is not None and not isinstance(t, OnDevice)]
        waits = (isinstance(source, OnDevice) != (torch.device(device).type == "cuda")) and not (
            non_blocking and host and all(map(self._is_pinned, host))
        )
        if waits:
            self.wait(f"a copy from {source.device} to {device} that is not asynchronous")
        if target is None:
            kwargs["device"] = "cpu"
            held = torch.empty_like(source.held if isinstance(source, OnDevice) else source, dtype=kwargs.get("dtype"))
            self._ask(lambda: held.copy_(_held(source)), held)
            made = OnDevice(held) if torch.device(device).type == "cuda" else held
        else:
            self._ask(lambda: _held(target).copy_(_held(source)))
            made = target
        if waits:
            self.run()
        return made

    def _computed(self, name: str, function: Any, args: Any, kwargs: Any) -> Any:
        """What is a view is one at once; what has to be known is waited for; else it is asked for, and given unread."""
        self._check_devices(name, _tensors((args, kwargs)), args)
        there = {**kwargs, "device": "cpu"} if kwargs.get("device") is not None else kwargs
        call = lambda: function(*_mapped(args, OnDevice, _held), **_mapped(there, OnDevice, _held))  # noqa: E731
        if name in WAITING or (name in INDEXED and any(i is not None and i.dtype == torch.bool for i in args[1])):
            self.wait(name)
            return _mapped(call(), Tensor, OnDevice)
        if function._schema.is_mutable:
            self._ask(call)
            return args[0]
        if any(r.alias_info is not None for r in function._schema.returns):
            return _mapped(call(), Tensor, OnDevice)
        like = _layout_of_result(function, args, kwargs)
        made = _mapped(like, Tensor, lambda t: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype))
        flat = _tensors(made)
        self._ask(lambda: [to.copy_(found) for to, found in zip(flat, _tensors(call()), strict=True)], *flat)
        return _mapped(made, Tensor, OnDevice)

    def _check_devices(self, name: str, tensors: list[Tensor], args: Any) -> None:
        for tensor in tensors:
            if not isinstance(tensor, OnDevice) and (tensor.dim() or name in INDEXED):
                self.wait(f"{name} of tensors on several devices")
                raise RuntimeError(f"Expected all tensors to be on the same device: {name} found cuda:0 and cpu")

    def _ask(self, work: Callable[[], Any], *made: Tensor) -> None:
        """Queues work, or adds it to a graph; what it makes is poison until it is done."""
        for tensor in made:
            _poison(tensor)
        if self.capturing is None:
            self.queue.append(work)
        else:
            self.capturing.work.append(work)
            self.capturing.made += made


def _held(tensor: Tensor) -> Tensor:
    return tensor.held if isinstance(tensor, OnDevice) else tensor


def _shape(tensor: Tensor) -> Tensor:
    if tensor.dim() == 0 and not isinstance(tensor, OnDevice):
        return tensor
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (tuple, list)) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _mapped(tree: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The same tuples, lists and dicts with each tensor of a kind changed; torch's own walk of trees is slow."""
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, dict):
        return {name: _mapped(part, kind, change) for name, part in tree.items()}
    return type(tree)(_mapped(part, kind, change) for part in tree) if isinstance(tree, (tuple, list)) else tree


@cache
def _is_composite(function: Any) -> bool:
    """Is the operation made of others?"""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return function.namespace == "aten" and function.has_kernel_for_dispatch_key(key)


_layouts: dict[Any, Any] = {}
"""By an operation and the layouts of what it is given, the layouts of what it makes, as tensors without values."""


def _layout_of_result(function: Any, args: Any, kwargs: Any) -> Any:
    """What an operation makes, as tensors without values."""
    key = function, _key(args), _key(kwargs)
    if key not in _layouts:
        shapes = {**kwargs, "device": "meta"} if kwargs.get("device") is not None else kwargs
        _layouts[key] = function(*_mapped(args, Tensor, _shape), **_mapped(shapes, Tensor, _shape))
    return _layouts[key]


def _key(tree: Any) -> Any:
    """What stands for an argument: of a tensor its layout, of numbers the type, too."""
    if isinstance(tree, Tensor):
        return OnDevice, isinstance(tree, OnDevice), tree.size(), tree.stride(), tree.dtype
    if isinstance(tree, dict):
        return tuple((name, _key(part)) for name, part in tree.items())
    return tuple(map(_key, tree)) if isinstance(tree, (tuple, list)) else (type(tree), tree)


def _poison(tensor: Tensor) -> None:
    lowest = torch.nan if tensor.dtype.is_floating_point else POISON.get(tensor.dtype, -(2**30) - 7)
    tensor.fill_(lowest)


@contextmanager
def simulated() -> Iterator[SimulatedDevice]:
    """The device, with what `torch.cuda` says of it."""
    from structgen.decoding.choosing import triton_masks
    from structgen.decoding.choosing.masking import apply_masks_plainly

    device = SimulatedDevice.current = SimulatedDevice()
    instead = {
        "Event": Event, "Stream": Stream, "CUDAGraph": Graph, "graph": device.capture,
        "stream": lambda _: nullcontext(), "device": lambda _: nullcontext(),
        "current_stream": lambda *_: device.stream, "set_stream": device.set_stream,
        "synchronize": lambda *_: device.wait("synchronize"), "_lazy_init": lambda: None,
    }  # fmt: skip
    with ExitStack() as stack:
        for name, value in instead.items():
            stack.enter_context(patch.object(torch.cuda, name, value))
        stack.enter_context(patch.object(triton_masks, "launch", apply_masks_plainly))
        stack.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor` copies to the device by an operation like others
        stack.enter_context(device)
        yield device
