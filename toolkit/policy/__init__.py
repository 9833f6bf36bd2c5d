"""What may refer to what: pure decisions that admission and reconcilers share."""
