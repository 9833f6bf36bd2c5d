"""``penstock``: what kubectl has no verb for, and the whole system on one machine."""
