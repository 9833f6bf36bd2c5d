"""HTTP to strangers: who may be asked, who is told what, and how long we wait."""
