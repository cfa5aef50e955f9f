"""Adapters: each speaks one framework, and none adds a rule of its own.

An adapter turns what a framework calls into verbs of a session, and what a session answers into what the framework expects.
It decides nothing that a rule decides. It keeps what it must keep in the session's log, so that it is durable, chained and
verified as everything else there is. Each needs the extra of its framework's name; `import lineal` needs none.
"""
