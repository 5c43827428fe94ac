"""One module per library: ``names()`` lists its models, ``examples(name)`` yields ways to build and call one, the best first."""
