"""The HTTP service: it reads typed input, calls the application and shapes the response. It has no rules, SQL or hashes."""
