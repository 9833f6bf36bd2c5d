"""Actions of Helm, which run in workers and reach clusters through this process."""
