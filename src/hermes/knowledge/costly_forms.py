"""Ways to write a computation that cost much more than another way with the same result: one row for each form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.base.message import Message
from hermes.knowledge.actions import OTHER_SUMS, action
from hermes.model.advice_fit import Fit
from hermes.model.fault import Fault
from hermes.model.finding import Action

Shapes = Literal["differences", "one-hot", "any", "pieces"]
"""How the shapes of a form are compared. `differences` broadcast two tensors against each other, square and sum them.
`one-hot` writes ones into zeros and multiplies them by a matrix. For `any` the operator alone tells the form. `pieces`
are counted as calls, because filling takes their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyForm:
    """A costly form: a name pattern of its first operators, how its shapes are compared, and the action to use
    a cheaper form.

    `also` are the operators that must run on the form's result, `only` all operators that may run there. `seen`: the
    form was recognised rightly in two unrelated captures (docs/evidence/trust.md); other forms are previews.
    """

    fault: Fault
    begins: str
    shapes: Shapes
    also: tuple[str, ...] = ()
    only: str = ""
    action: Action
    seen: bool = False


def _action(form: str, source: str, risk: Message | str = "") -> Action:
    return action(
        f"form.{form}", verify="form.gone", risk=risk, source=source, fit=Fit(frameworks=("pytorch",)), whole=True
    )  # fmt: skip


FORMS: tuple[CostlyForm, ...] = (
    CostlyForm(
        fault=Fault.ALL_DIFFERENCES,
        begins=r"aten::r?sub_?$",
        shapes="differences",
        also=(
            r"aten::(pow|square|mul|abs|_?linalg_vector_norm)_?$",
            r"aten::(sum|mean|norm|_?linalg_vector_norm|sqrt)",
        ),
        only=r"aten::(pow|square|mul|abs|sgn|sum|mean|neg|r?sub|div|copy_|add_?|norm|_?linalg_vector_norm|sqrt|fill_|"
        r"expand|threshold)",
        action=_action("differences", "PyTorch documentation of torch.cdist: compute_mode, use_mm_for_euclid_dist"),
        seen=True,
    ),
    CostlyForm(
        fault=Fault.ONE_HOT_PRODUCTS,
        begins=r"aten::scatter_$",
        shapes="one-hot",
        action=_action("one_hot", "PyTorch documentation of torch.nn.Embedding"),
    ),
    CostlyForm(
        fault=Fault.DECOMPOSITIONS,
        begins=r"aten::(_linalg_svd|_linalg_eigh|linalg_eig|_linalg_eigvals|linalg_qr|linalg_inv_ex|linalg_lu|"
        r"linalg_lu_factor_ex|_linalg_det|_linalg_slogdet|linalg_lstsq|linalg_pinv)$",
        shapes="any",
        action=_action("decompositions", "PyTorch documentation of torch.linalg.inv and of spectral_norm"),
    ),
    CostlyForm(
        fault=Fault.WHOLE_SORTS,
        begins=r"aten::(sort|argsort)$",
        shapes="any",
        action=_action("sorts", "PyTorch documentation of torch.topk"),
    ),
    CostlyForm(
        fault=Fault.UNFOLDED_WINDOWS,
        begins=r"aten::(im2col|col2im)$",
        shapes="any",
        action=_action("windows", "PyTorch documentation of torch.nn.Unfold", OTHER_SUMS),
    ),
    CostlyForm(
        fault=Fault.GRADIENTS_OF_PIECES,
        begins=r"aten::(select|slice)_backward$",
        shapes="pieces",
        action=_action("pieces", "PyTorch documentation of torch.unbind; derivatives.yaml: select, unbind", OTHER_SUMS),
    ),
)
