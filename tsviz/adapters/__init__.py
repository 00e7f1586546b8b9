"""Recording proxies for other schedulers, importers, exporters."""
