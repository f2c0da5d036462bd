"""What a run says, as objects that show themselves."""
