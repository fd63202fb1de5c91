"""What one operator has to do, from its shapes and types: operations, bytes, and the time a chip needs at best."""
