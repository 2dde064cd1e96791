"""What the queue does to the code host, behind one small contract, and the ways to do it."""
