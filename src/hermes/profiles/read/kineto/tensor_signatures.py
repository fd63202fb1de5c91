"""Converts shapes and types of tensors from Kineto's form to the form of the tables."""

from __future__ import annotations

import itertools

import polars as pl

from hermes.base.units import whole_number

# The most strides that a tensor can have; broken files have more.
_LONGEST = 1_000


def with_signatures(
    rows: pl.DataFrame, *, shapes: str, dtypes: str, values: str | None = None, strides: str | None = None
) -> pl.DataFrame:
    """The rows with `[[2, 3], [4]]` as `2,3;4` and `["float", "int"]` as `float;int`; null if nothing is named.

    Values, such as `["", "[1, 1]", "True"]`, become `;[1, 1];True`. Strides become `3,1;1` like shapes, and null if all
    tensors lie in the order of their axes.

    A trace repeats few signatures often: each distinct signature is rewritten once.
    """
    rules = [(shapes, _shape(pl.col("raw"))), (dtypes, _type(pl.col("raw")))]
    if values is not None:
        rules.append((values, _value(pl.col("raw"))))
    if strides is not None:
        rules.append((strides, _shape(pl.col("raw")).map_elements(_turned, return_dtype=pl.String)))
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


def _turned(text: str) -> str | None:
    """The strides, if those of some tensor do not fall from axis to axis; else None."""
    for tensor in text.split(";"):
        steps = [whole_number(step) or 0 for step in tensor[:_LONGEST].split(",")]
        if any(after > before for before, after in itertools.pairwise(steps)):
            return text
    return None


def _type(raw: pl.Expr) -> pl.Expr:
    tensors = raw.str.replace_all('", "', ";", literal=True).str.replace_all('","', ";", literal=True)
    return tensors.str.replace_all(r'[\[\]"]', "")


def _value(raw: pl.Expr) -> pl.Expr:
    # Lists among the values keep their brackets, which tell them from numbers.
    tensors = raw.str.replace_all('", "', ";", literal=True).str.replace_all('","', ";", literal=True)
    return tensors.str.strip_prefix("[").str.strip_suffix("]").str.replace_all('"', "", literal=True)
