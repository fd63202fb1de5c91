"""`hermes rules` and `hermes explain`: list the rules, and print the page of a rule."""

from __future__ import annotations

import click

from hermes.base.errors import QueryError
from hermes.cli import shared_options
from hermes.cli.print_output import show_line, show_lines


@click.command("rules")
@shared_options.lang
def rules(lang: str | None) -> None:
    """List the rules by which Hermes finds causes of slow steps."""
    from hermes.profiles.api import ALL, page_of

    language = shared_options.language(lang)
    for rule in ALL:
        show_line(f"{rule.code}  {page_of(rule, language).splitlines()[0]}")


@click.command("explain")
@click.argument("code", help="Code of a finding, such as COM001.")
@shared_options.lang
def run(code: str, lang: str | None) -> None:
    """Print the page of a rule, and the known causes for its findings."""
    from hermes.profiles.api import ALL, page_of

    tell, language = shared_options.teller(lang), shared_options.language(lang)
    for rule in ALL:
        if rule.code == code.upper():
            show_lines(f"{rule.code}\n\n{page_of(rule, language)}")
            if rule.cases:
                head, foot = tell("Known causes"), tell("hermes cases ID prints one.")
                show_lines(f"\n## {head}\n\n{_causes(rule.cases, lang)}\n\n{foot}")
            return
    raise QueryError(f"there is no rule {code!r}", hint=f"rules: {', '.join(rule.code for rule in ALL)}")


def _causes(identities: tuple[str, ...], lang: str | None) -> str:
    from hermes.cli.cases import listed
    from hermes.knowledge import cases

    return "\n".join(listed([one for identity in identities if (one := cases.case(identity)) is not None], lang))
