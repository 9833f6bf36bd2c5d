"""The aggregated API: artifacts and inventories, served through the aggregation layer."""
