"""`hermes rules` and `hermes explain`: what Hermes looks for, and why."""

from __future__ import annotations

import click

from hermes.base.errors import QueryError


@click.command("rules")
def rules() -> None:
    """List the rules."""
    from hermes.diagnose.rules import ALL

    for rule in ALL:
        print(f"{rule.code}  {rule.page.splitlines()[0]}")


@click.command("explain")
@click.argument("code", help="Code of a finding, such as COM001.")
def run(code: str) -> None:
    """Print the page of a rule."""
    from hermes.diagnose.rules import ALL

    for rule in ALL:
        if rule.code == code.upper():
            print(f"{rule.code}\n\n{rule.page.strip()}")
            return
    raise QueryError(f"there is no rule {code!r}", hint=f"rules: {', '.join(rule.code for rule in ALL)}")
