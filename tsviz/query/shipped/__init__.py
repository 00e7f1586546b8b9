"""The SQL of the shipped views and macros, by theme."""
