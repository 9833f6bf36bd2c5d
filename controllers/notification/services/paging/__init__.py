"""Services that wake people, and dashboards."""
