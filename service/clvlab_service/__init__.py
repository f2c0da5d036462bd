"""The HTTP service: reads typed input, asks the application, shapes the response; holds no rule, SQL or hash."""
