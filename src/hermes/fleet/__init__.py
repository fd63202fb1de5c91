"""Many hosts: what each of them tells, whether it is as fast as the others, and the network between them."""
