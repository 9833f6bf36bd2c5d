"""What an author may have overlooked: told as warnings, never a reason to refuse."""
