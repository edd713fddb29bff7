"""How a coordinator asks sites to do steps, and the engines that carry the messages."""
