"""Validation of agent-generated GPU kernel changes, before they merge.

Importing this package costs nothing: every stage is imported by the command that needs it.
"""

__version__ = "0.1.0"
