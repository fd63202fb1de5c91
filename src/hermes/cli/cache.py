"""`hermes cache`: shows and clears the cache of profiles that Hermes has read."""

from __future__ import annotations

import click

from hermes.cli.print_output import show_line


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove all entries of the cache.")
def run(*, clear: bool) -> None:
    """Show where the cache is, what is in it and how large it is."""
    from hermes.cli.print_output import open_cache, plain

    cache = open_cache()
    if clear:
        show_line(f"removed {cache.clear()} entries from {cache.root}")
        return
    entries = cache.entries()
    show_line(f"{cache.root}: {len(entries)} entries, {sum(entry.bytes for entry in entries) / 1e6:.1f} MB")
    for entry in entries:
        show_line(
            plain(
                f"  {entry.bytes / 1e6:8.1f} MB  rank {entry.manifest.get('rank')}  "
                f"{entry.manifest.get('format')}  {entry.manifest.get('root')}"
            )
        )
