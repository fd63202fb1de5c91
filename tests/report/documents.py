"""Documents for rendering tests: one with a part of each kind, and a hostile one."""

from __future__ import annotations

from hermes.base.errors import Diagnostic
from hermes.model.document import CodeText, Column, Document, DocumentInput, Table, Tree, TreeNode
from hermes.model.finding import Action, Blame, Evidence, Finding, Gain
from hermes.model.leaf import Leaf, Risk
from hermes.report.value_labels import Label


def document(rows: int = 3, name: str = "model.layers.0.attention") -> Document:
    """A document like a real one: two findings, a table, a tree, a diff."""
    columns = (
        Column(key="rank", title=Label.RANKS.message, kind="count"),
        Column(key="operator", title="Operator", kind="name"),
        Column(key="spent_ms", title="Time", kind="ns"),
        Column(key="apart", title="Distance", kind="number"),
        Column(key="known", title="Known", kind="flag"),
        Column(key="state", title="State", kind="word"),
    )
    return Document(
        schema="hermes.example/1",
        inputs=(
            DocumentInput(path="/runs/golden", role="golden", facts={"kind": "recording"}),
            DocumentInput(path=name, role="target"),
        ),
        answer="The runs part at the attention of layer 0.",
        coverage=(Diagnostic(level="degraded", message="rank 3 was not recorded", where=name, lost="its operators"),),
        findings=(
            Finding(
                code="PRE001", about=Risk.WRONG_NUMBERS, message=f"{name} gives other numbers", ranks=(0, 1, 2, 3),
                steps=(2,), lines=("model.py:12",), blames=(Blame(name, "operator", 0),), confidence=0.9,
                evidence=(Evidence(what="distance", value=0.25, unit="", threshold=1e-3, where=name),),
                actions=(
                    Action(title="Cast to float32", do="x.float()", verify="compare anew", risk="slower", source=""),
                ),
                doubts=("the inputs were not recorded",),
            ),
            Finding(
                code="PRE002", about=Leaf.TRANSFER, message="small", confidence=float("nan"), state="preview",
                cost_ns=1_000_000, gain=Gain(low_ns=0, high_ns=900_000, method="a bound"),
            ),
        ),
        facts={"verdict": "differs", "counts": {"same": 3, "blamed": 1}},
        parts=(
            Table(
                key="rows", title="Operators", columns=columns, marked=1, total=rows + 7,
                rows=[(at, name, 1_234_567 * at, 0.5**at, at % 2 == 0, None if at else "blamed") for at in range(rows)],
            ),
            Tree(
                key="modules", title="Modules", marked=("model", "layers"),
                roots=(
                    TreeNode(
                        name="model", value="0.2", level="high",
                        below=(TreeNode(name="layers", below=(TreeNode(name=name),)),),
                    ),
                ),
            ),
            CodeText(key="diff", title="Change", text=f"@@ -1 +1 @@\n-x.cuda()\n+x.npu()  # {name}\n", diff=True),
        ),
    )  # fmt: skip
