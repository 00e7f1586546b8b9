"""The Arrow bundle: schema, recorder, reader, recovery."""
