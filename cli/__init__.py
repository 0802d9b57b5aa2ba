"""Floor 4, who asks: commands and how answers are shown."""
