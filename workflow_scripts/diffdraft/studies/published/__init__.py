"""The published figures of RPRM stage 1, judged by our plan and checked against themselves."""
