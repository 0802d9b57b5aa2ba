"""Alembic's room: how an older schema becomes this one."""
