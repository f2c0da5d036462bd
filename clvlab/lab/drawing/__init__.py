"""Tables, pictures and pages: how results show themselves."""
