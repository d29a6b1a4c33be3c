"""What every track's problems and solutions have in common: frozen dataclasses of torch tensors and plain numbers."""

import dataclasses
import typing
from collections.abc import Mapping

import torch


class Wrong(Exception):
    """Raised by a judge for a solution that breaks a rule no number can express: a wrong shape, NaN, a missing part."""


class _Tensors:
    """Copying for frozen dataclasses whose fields are tensors, plain numbers and text."""

    def to(self, device: str | torch.device) -> typing.Self:
        """The same values on another device; tensors that are there already are shared, not copied."""
        return self._map(lambda tensor: tensor.to(device))

    def clone(self) -> typing.Self:
        """A copy that shares no memory with this one."""
        return self._map(torch.clone)

    def astype(self, dtype: torch.dtype) -> typing.Self:
        """The same problem or solution with its floating-point tensors rounded to ``dtype``."""
        return self._map(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def tensors(self) -> dict[str, torch.Tensor]:
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {name: value for name, value in values if isinstance(value, torch.Tensor)}

    def _map(self, change) -> typing.Self:
        return dataclasses.replace(self, **{name: change(tensor) for name, tensor in self.tensors().items()})


class Problem(_Tensors):
    """A problem: knows its own features, and how a solution to it is judged."""

    def features(self) -> Mapping[str, float | str]:
        """Numbers and a ``name`` that describe the problem; the axes of its contests are among them."""
        raise NotImplementedError

    def judge(self, solution: typing.Any) -> dict[str, float]:
        """Measure a solution in float64 from the problem alone; raises `Wrong` where no number can say what is amiss."""
        raise NotImplementedError

    @classmethod
    def probes(cls) -> Mapping[str, typing.Self]:
        """Tiny, odd and degenerate problems for `breakeven check`, by name."""
        raise NotImplementedError


class Solution(_Tensors):
    """A solution: what is judged. ``claims`` is what the method says of itself: shown, never trusted."""

    def claims(self) -> Mapping[str, float | str]:
        return {}
