"""Tables of the options of readers and sinks, and the parser that all of them share."""
