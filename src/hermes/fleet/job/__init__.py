"""One job on many hosts: its status, a capture of it, and where it hangs."""
