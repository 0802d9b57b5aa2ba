"""An application with jobs, for examples/qsched.yaml."""
