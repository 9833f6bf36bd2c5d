"""Libraries shared by controllers, webhooks and servers, such as the stages of a reconciliation."""
