"""Workloads: what arrives when, with which tokens. Importers for published traces and seeded generators."""
