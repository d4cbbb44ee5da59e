"""The common case that the equations of every method must pass."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch

from eventformers.models import losses


def random_numbers(*shape: int, seed: int) -> torch.Tensor:
    """Normal numbers in double precision."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@dataclass
class LossCase:
    """One way to call a loss: its tensors of real numbers, its other arguments and its module.

    `module` exports the loss: `eventformers.models.losses`, or a module of another package.
    """

    function: str
    tensors: dict[str, torch.Tensor]
    settings: dict[str, Any] = field(default_factory=dict)
    module: ModuleType = losses

    def __call__(self, **tensors: torch.Tensor) -> Any:
        return getattr(self.module, self.function)(**{**self.tensors, **tensors}, **self.settings)

    def expected(self, slow: ModuleType) -> Any:
        """What the slow version gives."""
        return getattr(slow, f"slow_{self.function}")(
            **{
                key: value.tolist() if isinstance(value, torch.Tensor) else value
                for key, value in {**self.tensors, **self.settings}.items()
            }
        )


class LossTests:
    """What every equation of a method must do."""

    cases: ClassVar[dict[str, LossCase]]
    equations: ClassVar[ModuleType]
    """The module that they stand in."""
    slow: ClassVar[ModuleType]
    """The module of their slow versions, `slow_NAME`."""
    without_numbers: ClassVar[frozenset[str]] = frozenset()
    """Functions of that module whose outcome is no number, which have tests of their own."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", self.cases.values(), ids=self.cases)

    def test_every_loss_has_a_case(self) -> None:
        public = {
            name
            for name, value in vars(self.equations).items()
            if inspect.isfunction(value)
            and value.__module__ == self.equations.__name__
            and not name.startswith("_")
        }
        assert public == {case.function for case in self.cases.values()} | self.without_numbers
        for module in {case.module for case in self.cases.values()}:
            assert public <= set(getattr(module, "__all__", vars(module)))

    def test_equals_the_slow_version(self, case: LossCase) -> None:
        expected = torch.tensor(case.expected(self.slow), dtype=torch.float64)
        torch.testing.assert_close(case(), expected, rtol=1e-10, atol=1e-12)

    def test_leaves_its_inputs_alone(self, case: LossCase) -> None:
        copies = {key: value.clone() for key, value in case.tensors.items()}
        case()
        for key, value in case.tensors.items():
            assert torch.equal(value, copies[key])

    def test_gradient_equals_finite_differences(self, case: LossCase) -> None:
        leaves = {key: value.clone().requires_grad_() for key, value in case.tensors.items()}

        def evaluate(*values: torch.Tensor) -> torch.Tensor:
            return case(**dict(zip(leaves, values, strict=True)))

        assert torch.autograd.gradcheck(evaluate, tuple(leaves.values()))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_is_raised(self, case: LossCase, dtype: torch.dtype) -> None:
        halves = {key: value.to(dtype) for key, value in case.tensors.items()}
        result = case(**halves)
        assert result.dtype == torch.float32
        assert torch.equal(result, case(**{key: value.float() for key, value in halves.items()}))

    def test_autocast_changes_nothing(self, case: LossCase) -> None:
        singles = {key: value.float() for key, value in case.tensors.items()}
        expected = case(**singles)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(case(**singles), expected)


class VectorLossTests(LossTests):
    """What an equation of similarities of vectors, each a row of a tensor, must do beside."""

    @pytest.mark.parametrize("scale", [1e-12, 1e6])
    def test_no_scale_gives_nan(self, case: LossCase, scale: float) -> None:
        """Vectors of any length, with equal and opposite pairs among them, at a very small temperature."""
        leaves = {}
        for key, value in case.tensors.items():
            extreme = value.float()
            if extreme.dim() > 1:
                extreme[0], extreme[1] = value[0].abs().float(), -value[0].abs().float()
            leaves[key] = (extreme * (1e-3 if key == "temperature" else scale)).requires_grad_()
        settings = {
            key: 1e-3 if key in ("temperature", "epsilon") else value for key, value in case.settings.items()
        }
        result = getattr(losses, case.function)(**leaves, **settings)
        assert torch.isfinite(result).all()
        if result.requires_grad:
            result.sum().backward()
            assert all(torch.isfinite(leaf.grad).all() for leaf in leaves.values() if leaf.grad is not None)
