"""Clock alignment: brings all ranks to one clock and one numbering of steps."""
