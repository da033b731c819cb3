"""Columns of many rows that each got values of their own, written in one go."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connections, router, transaction
from django.db.models import Model


def rows_save(rows: Collection[Model], fields: Sequence[str]) -> None:
    """UPDATE these fields of rows of one model by their keys.

    Whoever calls holds the rows' locks: no condition is asked. `QuerySet.bulk_update` writes the
    same as one CASE for each field and row, which takes Django as long as one UPDATE for each row;
    this is one short statement, sent once for all of them where the driver can (psycopg's
    pipelines).
    """
    if not rows:
        return
    model = type(next(iter(rows)))
    using = router.db_for_write(model)
    connection, meta = connections[using], model._meta
    columns: list[Any] = [meta.get_field(name) for name in fields]
    key: Any = meta.pk
    quoted = connection.ops.quote_name
    changes = ", ".join(f"{quoted(column.column)} = %s" for column in columns)
    sql = f"UPDATE {quoted(meta.db_table)} SET {changes} WHERE {quoted(key.column)} = %s"
    values = [
        [
            *(each.get_db_prep_save(getattr(row, each.attname), connection) for each in columns),
            key.get_db_prep_value(row.pk, connection),
        ]
        for row in rows
    ]
    with transaction.mark_for_rollback_on_error(using=using), connection.cursor() as cursor:
        cursor.executemany(sql, values)
