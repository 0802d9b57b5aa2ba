"""What tests and benchmarks stand on: private database servers, and waiting without guessing."""
