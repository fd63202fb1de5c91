"""Shapes and types of tensors as Kineto writes them, brought to the form of the tables."""

from __future__ import annotations

import polars as pl


def with_signatures(rows: pl.DataFrame, *, shapes: str, dtypes: str, values: str | None = None) -> pl.DataFrame:
    """The rows with `[[2, 3], [4]]` as `2,3;4` and `["float", "int"]` as `float;int`; null where nothing is named.

    Values, such as `["", "[1, 1]", "True"]`, become `;[1, 1];True`.

    A trace repeats few signatures often: each distinct one is rewritten once.
    """
    rules = [(shapes, _shape(pl.col("raw"))), (dtypes, _type(pl.col("raw")))]
    if values is not None:
        rules.append((values, _value(pl.col("raw"))))
    for column, rewritten in rules:
        distinct = rows.select(pl.col(column).unique().alias("raw")).drop_nulls()
        spelt = distinct.with_columns(rewritten.alias("spelt"))
        spelt = spelt.with_columns(pl.when(pl.col("spelt").str.contains("[^;]")).then("spelt").alias("spelt"))
        rows = rows.with_columns(
            pl.col(column).replace_strict(spelt["raw"], spelt["spelt"], default=None, return_dtype=pl.String)
        )
    return rows


def _shape(raw: pl.Expr) -> pl.Expr:
    tensors = raw.str.replace_all(" ", "", literal=True).str.replace_all("],[", ";", literal=True)
    return tensors.str.replace_all(r'[\[\]"]', "")


def _type(raw: pl.Expr) -> pl.Expr:
    tensors = raw.str.replace_all('", "', ";", literal=True).str.replace_all('","', ";", literal=True)
    return tensors.str.replace_all(r'[\[\]"]', "")


def _value(raw: pl.Expr) -> pl.Expr:
    # Lists among the values keep their brackets, which tell them from numbers.
    tensors = raw.str.replace_all('", "', ";", literal=True).str.replace_all('","', ";", literal=True)
    return tensors.str.strip_prefix("[").str.strip_suffix("]").str.replace_all('"', "", literal=True)
