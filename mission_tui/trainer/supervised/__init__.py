"""What makes a training one that can be supervised: its line, its orders, its manners on the machine, its own clock."""
