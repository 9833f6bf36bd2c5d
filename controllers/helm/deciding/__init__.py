"""Pure functions: the state of a release, the next action, and its conditions and events.

Input: a spec, a status and a record of Helm. Output: states, decisions, options of actions, texts.
Open ``decisions`` first.
"""
