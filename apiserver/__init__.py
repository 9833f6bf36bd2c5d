"""What can be asked: artifacts and inventories, served to kubectl through the aggregation layer."""
