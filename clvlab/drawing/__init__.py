"""Tables, pictures and pages: how a result shows itself to anybody, in a notebook or on a page of its own."""
