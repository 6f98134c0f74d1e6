"""The published figures of our studies, judged by our plans and checked against themselves."""
