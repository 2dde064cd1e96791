"""`_cloudflare_compat_flags`: the newest rules, which are those that hold here whatever the date says."""

python_request_headers_preserve_commas = True
python_workflows_implicit_dependencies = True
python_no_global_handlers = True
