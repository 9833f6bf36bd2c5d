"""How things are done: the stages and the runtime that controllers, webhooks and servers share."""
