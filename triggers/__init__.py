"""Floor 1, when: pure schedules, misfire and retry arithmetic, declarations; no clock, no database."""
