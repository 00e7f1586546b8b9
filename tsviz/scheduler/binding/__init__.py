"""The classes behind `tsviz.scheduler.compat`: strict types outside, plain values inside."""
