"""The migration tool: rewrites legacy calls in source code. It needs LibCST (extra ``migrate``)."""

from .files import migrate_paths
from .source import Migration, migrate_source

__all__ = ["Migration", "migrate_paths", "migrate_source"]
