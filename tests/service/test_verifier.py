import re
from base64 import b64encode
from hashlib import sha256

from clvlab.report.browser.page import verifier_page


def test_the_verifier_is_served_to_anybody_as_the_bytes_that_the_command_line_prints(api):
    page = api.nobody.get("/verify.html")

    assert (page.status_code, page.content) == (200, verifier_page())
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    again = api.nobody.get("/verify.html", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "/verify.html" not in api.get("/openapi.json")["paths"]


def test_its_policy_allows_its_own_script_and_style_and_no_request(api):
    page = api.nobody.get("/verify.html")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    (script,), (style,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", page.text, re.DOTALL) for tag in ("script", "style"))

    assert policy == {
        "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        "worker-src": "blob:",
        "script-src": f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'",
        "style-src": f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'",
    }  # fmt: skip
