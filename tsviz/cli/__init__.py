"""The command line: one command a file, imported when called. Stdout is data, stderr everything else."""
