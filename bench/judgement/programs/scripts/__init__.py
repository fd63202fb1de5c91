"""The programs: frozen, no rule was made for one of them."""
