"""The event loop, the device protocol, the simulated device on virtual time, workloads. No torch."""
