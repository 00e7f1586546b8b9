"""The operations of a real device, and what orders them: the happens-before checker, live and on a trace."""
