"""What many rows are written with that Django has no words for."""

from collections.abc import Collection, Sequence
from typing import Any

from django.db import connection, connections, router, transaction
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
    database, meta = connections[using], model._meta
    columns: list[Any] = [meta.get_field(name) for name in fields]
    key: Any = meta.pk
    quoted = database.ops.quote_name
    changes = ", ".join(f"{quoted(column.column)} = %s" for column in columns)
    sql = f"UPDATE {quoted(meta.db_table)} SET {changes} WHERE {quoted(key.column)} = %s"
    values = [
        [
            *(each.get_db_prep_save(getattr(row, each.attname), database) for each in columns),
            key.get_db_prep_value(row.pk, database),
        ]
        for row in rows
    ]
    with transaction.mark_for_rollback_on_error(using=using), database.cursor() as cursor:
        cursor.executemany(sql, values)


def wait_at_most(seconds: float) -> None:
    """Let this transaction fail (OperationalError) that waits longer for one row; on PostgreSQL.

    SQLite has one writer, and a limit of its own.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = %s", [f"{round(seconds * 1000)}ms"])
