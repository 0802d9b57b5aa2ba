"""Calendars: which time is left out of a trigger's schedule."""
