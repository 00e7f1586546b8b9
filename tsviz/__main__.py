"""`python -m tsviz` is `tsviz`."""

from tsviz.cli.main import main

main()
