"""From the data people have to the dependence they declare: what holds, at which price."""
