"""The canonical tables: each declared once, with its columns, types, units and meaning."""

from hermes.tables.catalog import TABLES
from hermes.tables.schema import Column, Table, empty, lookup, schema_of

__all__ = ["TABLES", "Column", "Table", "empty", "lookup", "schema_of"]
