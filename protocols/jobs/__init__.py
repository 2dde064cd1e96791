"""The job queue's rules: states, hashes, rendering, selection and the verbs (spec job-lifecycle, seed 003).

`states` is the table of transitions; `submit`, `claim`, `record`, `operate`, `read` and `judgments` are the verbs as
pure steps (see `steps`); `engine` joins them with the four interfaces of `ports`.
"""
