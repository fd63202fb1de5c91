"""The rules, one file each."""

from hermes.diagnose.rules import com001, com002, cpu001, cpu002, cpu003, mem001

ALL = (com001.RULE, com002.RULE, cpu001.RULE, cpu002.RULE, cpu003.RULE, mem001.RULE)
"""Every rule, in the order of their codes."""

__all__ = ["ALL"]
