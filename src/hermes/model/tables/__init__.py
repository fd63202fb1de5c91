"""The canonical tables of captures: each is declared once, with its columns, types, units and meaning."""

from hermes.model.tables.catalog import RUNTIME_KINDS, TABLES
from hermes.model.tables.schema import Column, Table, empty, lookup, schema_of

__all__ = ["RUNTIME_KINDS", "TABLES", "Column", "Table", "empty", "lookup", "schema_of"]
