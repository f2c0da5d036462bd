"""Alembic's script: it runs the migrations on the connection of ``upgrade``."""

from __future__ import annotations

from alembic import context

from clvlab.store.tables import runs

context.configure(connection=context.config.attributes["connection"], target_metadata=runs.metadata, transactional_ddl=False)
context.run_migrations()
