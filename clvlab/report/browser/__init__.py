"""The verifier that runs in a browser: one page of plain JavaScript, joined from the sources in this folder."""
