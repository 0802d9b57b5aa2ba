"""Other schedulers' formats: what they say, read into triggers and jobs of our own, and written from them."""
