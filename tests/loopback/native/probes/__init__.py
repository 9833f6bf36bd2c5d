"""Workers of each kind that also try what somebody would who has taken one over."""
