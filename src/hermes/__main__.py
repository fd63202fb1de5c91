"""`python -I -m hermes`: the command `hermes`, where its folder is not on the path."""

from hermes.cli import command

command()
