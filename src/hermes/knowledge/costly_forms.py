"""Ways to write a computation that cost much more than another way with the same result: one row for each form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes.model.fault import Fault

Shapes = Literal["differences", "one-hot", "any", "pieces"]
"""How the shapes of a form are compared. `differences` broadcast two tensors against each other, square and sum them.
`one-hot` writes ones into zeros and multiplies them by a matrix. For `any` the operator alone tells the form. `pieces`
are counted as calls, because filling takes their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlyForm:
    """A costly form: a name pattern of its first operators, how its shapes are compared, and a cheaper form.

    `also` are the operators that must run on the form's result, `only` all operators that may run there. `seen`: the
    form was recognised rightly in two unrelated captures (docs/evidence/trust.md); other forms are previews.
    """

    fault: Fault
    begins: str
    shapes: Shapes
    also: tuple[str, ...] = ()
    only: str = ""
    title: str
    do: str
    risk: str
    source: str
    seen: bool = False


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
        title="Take distances by a product",
        do="|a - b|^2 = |a|^2 + |b|^2 - 2 a.b: the squares of each row, and one matrix product; or torch.cdist, "
        "which does so for many rows. The tensor of all differences is then never made.",
        risk="Of nearly equal rows digits are lost; clamp at 0 before a root.",
        source="PyTorch documentation of torch.cdist: compute_mode, use_mm_for_euclid_dist",
        seen=True,
    ),
    CostlyForm(
        fault=Fault.ONE_HOT_PRODUCTS,
        begins=r"aten::scatter_$",
        shapes="one-hot",
        title="Look rows up in place of a product with one-hot vectors",
        do="A product with a one-hot vector picks one row: nn.Embedding in place of nn.Linear without bias, or an "
        "index into its weight. The zeros are then neither made, nor cast, nor multiplied.",
        risk="The weight of a Linear is that of an Embedding transposed, where one is loaded into the other.",
        source="PyTorch documentation of torch.nn.Embedding",
    ),
    CostlyForm(
        fault=Fault.DECOMPOSITIONS,
        begins=r"aten::(_linalg_svd|_linalg_eigh|linalg_eig|_linalg_eigvals|linalg_qr|linalg_inv_ex|linalg_lu|"
        r"linalg_lu_factor_ex|_linalg_det|_linalg_slogdet|linalg_lstsq|linalg_pinv)$",
        shapes="any",
        title="Decompose more rarely, or compute only what is used",
        do="Of the largest singular value alone: a step of power iteration a pass, as "
        "torch.nn.utils.parametrizations.spectral_norm does. Of an inverse that is multiplied: torch.linalg.solve. "
        "Of a matrix that is positive definite: one Cholesky factor for product, determinant and inverse. Of what the "
        "step does not change: once.",
        risk="Power iteration nears the value over steps; keep its vector between them.",
        source="PyTorch documentation of torch.linalg.inv and of spectral_norm",
    ),
    CostlyForm(
        fault=Fault.WHOLE_SORTS,
        begins=r"aten::(sort|argsort)$",
        shapes="any",
        title="Take the few that are used",
        do="Of the first k alone: torch.topk(x, k). Of one: max, min or kthvalue. Of what the step does not change: "
        "sort once.",
        risk="topk leaves ties in another order.",
        source="PyTorch documentation of torch.topk",
    ),
    CostlyForm(
        fault=Fault.UNFOLDED_WINDOWS,
        begins=r"aten::(im2col|col2im)$",
        shapes="any",
        title="Convolve in place of unfolding",
        do="Where columns of nn.functional.unfold are multiplied by a weight, F.conv2d with that weight as (out, in, "
        "k, k) is the same; of means and maxima over windows, pooling.",
        risk="Sums in another order: last digits differ.",
        source="PyTorch documentation of torch.nn.Unfold",
    ),
    CostlyForm(
        fault=Fault.GRADIENTS_OF_PIECES,
        begins=r"aten::(select|slice)_backward$",
        shapes="pieces",
        title="Take a tensor apart once, or not at all",
        do="The gradient of each piece x[i] is a tensor as large as x, filled with zeros. In a loop over pieces take "
        "them by x.unbind(dim) or x.split(n), whose gradients are put together once; better work on the whole tensor, "
        "with sums over an axis, one_hot, gather or scatter_add in place of the loop.",
        risk="Sums in another order: last digits differ.",
        source="PyTorch documentation of torch.unbind; derivatives.yaml: select, unbind",
    ),
)
