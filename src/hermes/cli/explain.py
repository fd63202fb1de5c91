"""`hermes rules` and `hermes explain`: what Hermes looks for, and why."""

from __future__ import annotations

import click

from hermes.base.errors import QueryError


@click.command("rules")
def rules() -> None:
    """List the rules."""
    from hermes.profiles.api import ALL

    for rule in ALL:
        print(f"{rule.code}  {rule.page.splitlines()[0]}")


@click.command("explain")
@click.argument("code", help="Code of a finding, such as COM001.")
def run(code: str) -> None:
    """Print the page of a rule, and the known causes that it may point to."""
    from hermes.profiles.api import ALL

    for rule in ALL:
        if rule.code == code.upper():
            print(f"{rule.code}\n\n{rule.page.strip()}")
            if rule.cases:
                print(f"\n## Known causes\n\n{_causes(rule.cases)}\n\nhermes cases ID prints one.")
            return
    raise QueryError(f"there is no rule {code!r}", hint=f"rules: {', '.join(rule.code for rule in ALL)}")


def _causes(identities: tuple[str, ...]) -> str:
    from hermes.knowledge import cases

    found = [one for identity in identities if (one := cases.case(identity)) is not None]
    return "\n".join(f"{one.id:<7} {one.cause}{'  (lead)' if one.is_lead else ''}" for one in found)
